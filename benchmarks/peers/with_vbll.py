"""Variational Bayesian last layers by their authors, `vbll`.

Its factors of covariances are kept as whole squares; its logits have noise of a learned scale
besides; and each forward pass draws 20 predictions, asked for or not.
"""

from __future__ import annotations

import torch
import work
from torch import nn
from vbll import DiscClassification
from with_torch import Round, stack, train


def vbll() -> Round:
    """Steps with a full covariance of the weights into each output."""
    n = work.STEPS * work.BATCH
    *sizes, classes = work.NETWORK
    last = DiscClassification(sizes[-1], classes, regularization_weight=1 / n)
    model = nn.Sequential(stack(tuple(sizes), nn.Linear), nn.ReLU(), last)

    def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return model(x).train_loss_fn(y)

    return train(model, loss, work.BATCH, *work.images(n))
