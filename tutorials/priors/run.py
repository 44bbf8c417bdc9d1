"""What a part of `priors.py` trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np


class Run(NamedTuple):
    """One model and what it is trained on.

    Attributes:
        model: makes it, compiled.
        x: examples, shape (N, ...).
        y: targets, shape (N, ...).
        epochs: passes over them.
        batch_size: examples a step.
        columns: of `train.log`.
    """

    model: Callable[[], keras.Model]
    x: np.ndarray
    y: np.ndarray
    epochs: int
    batch_size: int
    columns: tuple[str, ...]

    @property
    def steps(self) -> int:
        """Of the whole training."""
        return self.epochs * (len(self.x) // min(self.batch_size, len(self.x)))


REGRESSION = ("loss", "kl")
CLASSIFICATION = ("cent", "kl", "acc")
