"""IVON by its authors, `ivon-opt`; all weights, one sample a step."""

from __future__ import annotations

import numpy as np
import work
from ivon import IVON
from torch import nn
from with_torch import Round, batches, photographs, resnet20, stack


def steps(model: nn.Module, *arrays: np.ndarray) -> Round:
    """Steps at drawn weights, for the prior N(0, 1)."""
    n = len(arrays[0])
    data = batches(work.BATCH, *arrays)
    optimizer = IVON(model.parameters(), lr=1e-3, ess=n, weight_decay=1 / n)
    cross_entropy = nn.CrossEntropyLoss()

    def run() -> dict[str, float]:
        for x, y in data:
            with optimizer.sampled_params(train=True):
                optimizer.zero_grad()
                cross_entropy(model(x), y).backward()
            optimizer.step()
        return {"units": len(data)}

    return run


def ivon() -> Round:
    """Dense layers."""
    return steps(stack(work.NETWORK, nn.Linear), *work.images(work.STEPS * work.BATCH))


def ivon_resnet() -> Round:
    """The ResNet-20."""
    return steps(resnet20(), *photographs(work.STEPS * work.BATCH))
