"""BLiTZ."""

from __future__ import annotations

import torch
import work
from blitz.modules import BayesianLinear
from blitz.utils import variational_estimator
from torch import nn
from with_torch import Round, stack, train


@variational_estimator
class Network(nn.Module):
    """ReLU layers."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.stack = stack(sizes, BayesianLinear)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.stack(x)


def bbb_one(sizes: tuple[int, ...] = work.NETWORK, batch: int = work.BATCH) -> Round:
    """One weight sample a batch."""
    n = work.STEPS * batch
    model, criterion = Network(sizes), nn.CrossEntropyLoss()

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return model.sample_elbo(
            inputs=x, labels=y, criterion=criterion, sample_nbr=1, complexity_cost_weight=1 / n
        )

    return train(model, loss, batch, *work.images(n))


def bbb_wide() -> Round:
    """One weight sample a batch in the wide network."""
    return bbb_one(work.WIDE, work.WIDE_BATCH)
