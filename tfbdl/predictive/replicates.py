"""Data that drawn functions make, and how likely they hold others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf

from tfbdl.examples import examples
from tfbdl.likelihoods import Likelihood
from tfbdl.likelihoods.positions import with_mask

_NUMBERS = 2**20
"""Outputs that are asked about at once."""


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
        mask: True at positions of y that count, shape (N, ...); None for all.

    Raises:
        ValueError: if y does not fit the outputs.
    """
    y = examples("y", y, "float32")
    if len(y) != outputs.shape[1]:
        raise ValueError(
            f"y has shape {y.shape}; give one y for each of the {outputs.shape[1]} examples"
        )
    likelihood.check_targets(y, with_mask(tf.constant(outputs[0]), mask))
    together = max(_NUMBERS // max(math.prod(outputs.shape[1:]), 1), 1)
    parts = [outputs[first : first + together] for first in range(0, len(outputs), together)]
    logs = [_as_examples(part, likelihood, y, mask) for part in parts]
    return np.concatenate(logs).astype(np.float64)


def _as_examples(outputs: np.ndarray, likelihood: Likelihood, y: np.ndarray, mask: Any) -> Any:
    """Log p(y | f(x)), shape (S, N), of functions one behind the other as more examples."""
    number = len(outputs)
    if mask is not None:
        mask = np.concatenate([mask] * number)
    rows = with_mask(tf.constant(outputs.reshape(-1, *outputs.shape[2:])), mask)
    return np.reshape(likelihood.log_prob(np.concatenate([y] * number), rows), (number, -1))
