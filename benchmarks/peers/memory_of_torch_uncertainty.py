"""The case of `memory.py` that TorchUncertainty is put to: SWAG with its covariance.

    python benchmarks/peers/memory_of_torch_uncertainty.py CASE GIGABYTES MINUTES

Its wrapper draws the members anew after each snapshot; one is the least that it takes.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable

import operators  # noqa: F401
import torch
from measured import limit, tried
from torch import nn
from torch_uncertainty.methods.swag import SWAG

RANK = 20


def path_of_25_million() -> None:
    """SWAG of 25 million weights at rank 20, beside the training alone."""
    torch.manual_seed(0)
    widths = [1000, 2500, 5000, 2000]
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    model = nn.Sequential(*layers)
    x, y = torch.randn(200, 1000), torch.randn(200, 2000)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    def epoch() -> None:
        for part, target in zip(x.split(32), y.split(32), strict=True):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(part), target).backward()
            optimizer.step()

    def train(epochs: int) -> None:
        for _ in range(epochs):
            epoch()

    def fit(epochs: int) -> None:
        swag = SWAG(model, 0, 1, max_num_models=RANK, num_estimators=1)
        for number in range(1, epochs + 1):
            epoch()
            swag.update_wrapper(number)

    tried("train, 2 epochs", lambda: train(2))
    tried(f"SWAG, 24 epochs, rank {RANK}", lambda: fit(24))


CASES: dict[str, Callable[[], None]] = {"SWAG of 25 million weights": path_of_25_million}


if __name__ == "__main__":
    limit(*map(float, sys.argv[2:]))
    CASES.get(sys.argv[1], lambda: None)()
