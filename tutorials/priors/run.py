"""What a part of the lecture on priors trains."""

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
        epochs: lines of `train.log`, each of `repeats` passes over the examples.
        batch_size: examples a step.
        columns: the columns of `train.log`.
        repeats: more than 1 where there are so few examples that an epoch is hardly a step.
    """

    model: Callable[[], keras.Model]
    x: np.ndarray
    y: np.ndarray
    epochs: int
    batch_size: int
    columns: tuple[str, ...]
    repeats: int = 1


REGRESSION = ("loss", "kl")
CLASSIFICATION = ("cent", "kl", "acc")
