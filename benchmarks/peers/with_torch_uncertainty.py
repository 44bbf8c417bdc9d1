"""torch-uncertainty."""

from __future__ import annotations

import operators  # noqa: F401
import torch
import work
from torch import nn
from torch_uncertainty import methods
from torch_uncertainty.layers.bayesian import BayesLinear
from torch_uncertainty.losses import ELBOLoss
from with_torch import Round, stack, train


def bbb_one(sizes: tuple[int, ...] = work.NETWORK, batch: int = work.BATCH) -> Round:
    """One weight sample a batch."""
    n = work.STEPS * batch
    model = stack(sizes, BayesLinear)
    elbo = ELBOLoss(model, nn.CrossEntropyLoss(), kl_weight=1 / n, num_samples=1)
    return train(model, elbo, batch, *work.images(n))


def bbb_wide() -> Round:
    """One weight sample a batch in the wide network."""
    return bbb_one(work.WIDE, work.WIDE_BATCH)


def batch_ensemble() -> Round:
    """Its wrapper around a network, which gives each example to all members."""
    model = methods.batch_ensemble(
        stack(work.NETWORK, nn.Linear),
        work.MEMBERS,
        repeat_training_inputs=True,
        convert_layers=True,
    )
    cross_entropy = nn.CrossEntropyLoss()

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return cross_entropy(model(x), y.repeat(work.MEMBERS))

    return train(model, loss, work.BATCH, *work.images(work.STEPS * work.BATCH))


def mc_dropout() -> Round:
    """Its wrapper around a network with dropout."""
    core = nn.Sequential(
        *(nn.Linear(784, 500), nn.ReLU(), nn.Dropout(0.5)),
        *(nn.Linear(500, 500), nn.ReLU(), nn.Dropout(0.5)),
        nn.Linear(500, 10),
    )
    model = methods.mc_dropout(core, num_estimators=100).eval()
    x = torch.from_numpy(work.images(1000)[0])

    @torch.no_grad()
    def run() -> dict[str, float]:
        draws = [model(x).softmax(-1).reshape(100, len(x), 10) for _ in range(work.DRAWS // 100)]
        torch.cat(draws).std(0).numpy()
        return {"units": 1}

    return run
