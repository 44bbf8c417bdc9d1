"""Epochs of the package's compiled steps, for the timings of many rounds."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from tfbdl.keras_private import build_all
from tfbdl.training.feed import Arrays
from tfbdl.training.steps import Steps


def compiled_epoch(
    model: keras.Model, *arrays: np.ndarray, batch_size: int = 100
) -> Callable[[], None]:
    """One epoch of the package's compiled steps."""
    feed = Arrays(tf.distribute.get_strategy(), arrays, batch_size=batch_size, seed=0)
    build_all(model, feed.first)
    steps = Steps(model, feed, jit_compile=None)

    def epoch() -> None:
        for _ in steps.epoch(1):
            pass

    return epoch
