"""PyTorch and nothing else: floors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
import work
from torch import nn

Round = Callable[[], dict[str, float]]


def batches(batch: int, *arrays: np.ndarray) -> list[tuple[torch.Tensor, ...]]:
    """The batches of a round."""
    tensors = [torch.from_numpy(a.astype(np.int64) if a.dtype == np.int32 else a) for a in arrays]
    return list(zip(*(t.split(batch) for t in tensors), strict=True))


def stack(sizes: tuple[int, ...], layer: Callable[[int, int], nn.Module]) -> nn.Sequential:
    """Layers with ReLUs between them."""
    modules: list[nn.Module] = []
    for i, (inputs, units) in enumerate(itertools.pairwise(sizes)):
        modules += [nn.ReLU(), layer(inputs, units)] if i else [layer(inputs, units)]
    return nn.Sequential(*modules)


def train(
    model: nn.Module, loss: Callable[..., torch.Tensor], batch: int, *arrays: np.ndarray
) -> Round:
    """Steps of Adam on `loss(*batch)`."""
    data = batches(batch, *arrays)
    adam = torch.optim.Adam(model.parameters(), lr=work.LEARNING_RATE)

    def run() -> dict[str, float]:
        for part in data:
            adam.zero_grad()
            loss(*part).backward()
            adam.step()
        return {"units": len(data)}

    return run


def epoch(run: Round) -> Round:
    """The same round, as one."""
    return lambda: {**run(), "units": 1}


def deterministic(sizes: tuple[int, ...] = work.NETWORK, batch: int = work.BATCH) -> Round:
    """Steps of single weights."""
    model = stack(sizes, nn.Linear)
    cross_entropy = nn.CrossEntropyLoss()
    return train(
        model, lambda x, y: cross_entropy(model(x), y), batch, *work.images(work.STEPS * batch)
    )


bbb_one = bbb_local = bbb_flipout = sgld = sghmc = deterministic
ivon = vbll = batch_ensemble = deterministic


def bbb_wide() -> Round:
    """Steps of single weights in the wide network."""
    return deterministic(work.WIDE, work.WIDE_BATCH)


def convolution(inputs: int, filters: int, stride: int = 1) -> nn.Sequential:
    """A convolution of 3 x 3 pixels, and its normalisation."""
    kernel = nn.Conv2d(inputs, filters, 3, stride, padding=1, bias=False)
    return nn.Sequential(kernel, nn.BatchNorm2d(filters))


class Block(nn.Module):
    """Two convolutions beside a shortcut without weights, of every second pixel where they halve.

    Twice the filters halve the image.
    """

    def __init__(self, inputs: int, filters: int) -> None:
        super().__init__()
        self.stride, self.more = filters // inputs, filters - inputs
        self.first = convolution(inputs, filters, self.stride)
        self.second = convolution(filters, filters)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.second(self.first(x).relu())
        if self.more:
            half = self.more // 2
            x = nn.functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, half, half))
        return (h + x).relu()


def resnet20() -> nn.Sequential:
    """The ResNet-20 of `plain_networks.py`."""
    widths = (16, 16, 16, 16, 32, 32, 32, 64, 64, 64)
    blocks = [Block(*pair) for pair in itertools.pairwise(widths)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    return nn.Sequential(convolution(3, 16), nn.ReLU(), *blocks, *head)


def photographs(n: int) -> tuple[np.ndarray, np.ndarray]:
    """The photographs of the work, channels first."""
    x, y = work.photographs(n)
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2)), y


class FilterResponseNormalization(nn.Module):
    """Normalises images, channels first; swish behind it, or nothing."""

    def __init__(self, channels: int, activate: bool = True) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels, 1, 1))
        self.beta = nn.Parameter(torch.zeros(channels, 1, 1))
        self.tau = nn.Parameter(torch.zeros(channels, 1, 1))
        self.activate = activate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.rsqrt(x.square().mean((2, 3), keepdim=True) + 1e-6) * self.gamma
        y = torch.maximum(x * scale + self.beta, self.tau)
        return nn.functional.silu(y) if self.activate else y


class ChainBlock(nn.Module):
    """Two convolutions beside a shortcut, which has a convolution where the image halves."""

    def __init__(self, inputs: int, filters: int) -> None:
        super().__init__()
        stride = filters // inputs
        self.body = nn.Sequential(
            nn.Conv2d(inputs, filters, 3, stride, padding=1),
            FilterResponseNormalization(filters),
            nn.Conv2d(filters, filters, 3, padding=1),
            FilterResponseNormalization(filters, activate=False),
        )
        halved = nn.Conv2d(inputs, filters, 1, stride)
        normalized = FilterResponseNormalization(filters, activate=False)
        self.shortcut = nn.Sequential(halved, normalized) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(self.body(x) + self.shortcut(x))


def chain_resnet20() -> nn.Sequential:
    """The network that the tutorial compares with HMC's chains."""
    widths = (16, 16, 16, 16, 32, 32, 32, 64, 64, 64)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        FilterResponseNormalization(16),
        *(ChainBlock(*pair) for pair in itertools.pairwise(widths)),
        *(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(64, 10)),
    )
    assert sum(p.numel() for p in model.parameters()) == 274_042
    return model


def sghmc_resnet() -> Round:
    """Steps of its single weights."""
    model, cross_entropy = chain_resnet20(), nn.CrossEntropyLoss()
    data = photographs(work.CHAIN_STEPS * work.CHAIN_BATCH)
    return train(model, lambda x, y: cross_entropy(model(x), y), work.CHAIN_BATCH, *data)


def ivon_resnet() -> Round:
    """Steps of single weights of a ResNet-20."""
    model, cross_entropy = resnet20(), nn.CrossEntropyLoss()
    data = photographs(work.STEPS * work.BATCH)
    return train(model, lambda x, y: cross_entropy(model(x), y), work.BATCH, *data)


def vae(num_data: int = 1000) -> Round:
    """An epoch of a plain VAE."""
    encoder = stack((784, 500, 500, 40), nn.Linear)
    decoder = stack((20, 500, 500, 784), nn.Linear)
    model = nn.ModuleList([encoder, decoder])

    def loss(x: torch.Tensor) -> torch.Tensor:
        mu, log_variance = encoder(x).chunk(2, dim=-1)
        z = mu + torch.exp(0.5 * log_variance) * torch.randn_like(mu)
        pixels = nn.functional.binary_cross_entropy_with_logits(decoder(z), x, reduction="sum")
        kl = 0.5 * (mu**2 + log_variance.exp() - log_variance - 1.0).sum()
        return (pixels + kl) / len(x)

    return epoch(train(model, loss, work.BATCH, work.images(num_data)[0]))


vae_full = partial(vae, 60_000)


def mc_dropout() -> Round:
    """A loop over passes with dropout on."""
    model = nn.Sequential(
        *(nn.Linear(784, 500), nn.ReLU(), nn.Dropout(0.5)),
        *(nn.Linear(500, 500), nn.ReLU(), nn.Dropout(0.5)),
        nn.Linear(500, 10),
    )
    x = torch.from_numpy(work.images(1000)[0])

    @torch.no_grad()
    def run() -> dict[str, float]:
        draws = torch.stack([model(x).softmax(-1) for _ in range(work.DRAWS)])
        draws.std(0).numpy()
        return {"units": 1}

    return run
