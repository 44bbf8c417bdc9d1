"""Data that drawn functions make, and how likely they hold others."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfbdl.examples import examples
from tfbdl.likelihoods import Likelihood
from tfbdl.likelihoods.positions import with_mask


def replicated(outputs: np.ndarray, likelihood: Likelihood, key: tf.Tensor) -> np.ndarray:
    """One y for the outputs of each function, (S, N, ...), from the noise of `key`."""
    rows = tf.constant(outputs.reshape(-1, *outputs.shape[2:]))
    y = likelihood.sample(key, rows).numpy()
    return y.reshape(*outputs.shape[:2], *y.shape[1:])


def log_likelihoods(
    outputs: np.ndarray, likelihood: Likelihood, y: Any, mask: Any = None
) -> np.ndarray:
    """Log p(y | f(x)) of each function, (S, N, ...), and example, shape (S, N), in nats.

    Args:
        outputs: the outputs of the functions.
        likelihood: p(y | f(x)).
        y: the targets, (N, ...).
        mask: which positions of y count, shape (N, ...); None for all.

    Raises:
        ValueError: if y does not fit the outputs.
    """
    y = examples("y", y, "float32")
    if len(y) != outputs.shape[1]:
        raise ValueError(
            f"y has shape {y.shape}; give one y for each of the {outputs.shape[1]} examples"
        )
    functions = [with_mask(tf.constant(f), mask) for f in outputs]
    likelihood.check_targets(y, functions[0])
    return np.stack([likelihood.log_prob(y, f).numpy() for f in functions]).astype(np.float64)
