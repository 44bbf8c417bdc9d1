"""bayesian-torch."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
import work
from bayesian_torch.layers import (
    Conv2dReparameterization,
    LinearFlipout,
    LinearReparameterization,
    LSTMReparameterization,
)
from torch import nn
from with_torch import Round, train

PRIOR = {
    "prior_mean": 0.0,
    "prior_variance": 1.0,
    "posterior_mu_init": 0.0,
    "posterior_rho_init": -3.0,
}


class Stack(nn.Module):
    """Layers in turn; the output, and the sum of their KL."""

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        self.stack = nn.ModuleList(modules)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = torch.zeros(())
        for module in self.stack:
            x = module(x)
            if isinstance(x, tuple):
                x, kl = x
                total = total + kl
        return x, total


def steps(model: Stack, batch: int, shape: tuple[int, ...] = (784,)) -> Round:
    """Mean cross-entropy and KL / N."""
    n = work.STEPS * batch
    x, y = work.images(n)
    cross_entropy = nn.CrossEntropyLoss()

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        logits, kl = model(x)
        return cross_entropy(logits, y) + kl / n

    return train(model, loss, batch, x.reshape(n, *shape), y)


def dense(
    layer: Callable[..., nn.Module], sizes: tuple[int, ...], batch: int = work.BATCH
) -> Round:
    """Steps of ReLU layers."""
    modules: list[nn.Module] = []
    for i, (inputs, units) in enumerate(itertools.pairwise(sizes)):
        modules += [nn.ReLU()] * bool(i) + [layer(inputs, units, **PRIOR)]
    return steps(Stack(*modules), batch)


def bbb_one() -> Round:
    """One weight sample a batch."""
    return dense(LinearReparameterization, work.NETWORK)


def bbb_flipout() -> Round:
    """Flipout."""
    return dense(LinearFlipout, work.NETWORK)


def bbb_wide() -> Round:
    """One weight sample a batch in the wide network."""
    return dense(LinearReparameterization, work.WIDE, work.WIDE_BATCH)


def lenet() -> Round:
    """LeNet-5."""
    modules = [
        *(Conv2dReparameterization(1, 6, 5, padding=2, **PRIOR), nn.ReLU(), nn.MaxPool2d(2)),
        *(Conv2dReparameterization(6, 16, 5, **PRIOR), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(LinearReparameterization(400, 120, **PRIOR), nn.ReLU()),
        *(LinearReparameterization(120, 84, **PRIOR), nn.ReLU()),
        LinearReparameterization(84, 10, **PRIOR),
    ]
    return steps(Stack(*modules), work.BATCH, (1, 28, 28))


class Last(nn.Module):
    """The last state of an LSTM, and its KL."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = LSTMReparameterization(28, 100, **PRIOR)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states, _, kl = self.lstm(x)
        return states[:, -1], kl


def lstm() -> Round:
    """An LSTM over rows, whose weights this package draws at each row."""
    return steps(Stack(Last(), LinearReparameterization(100, 10, **PRIOR)), work.BATCH, (28, 28))
