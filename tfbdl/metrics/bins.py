"""Equal bins of [0, 1], and sums of values in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbdl.arguments import positive_integer

Formula = Callable[..., Any]
"""A function of arrays or of tensors."""

MOST = 1_000_000
"""Bins, beyond which hardly one has two examples."""


def number_of_bins(num_bins: int) -> int:
    """`num_bins`, if it is a positive integer up to a million.

    Raises:
        ValueError: if it is not.
    """
    return positive_integer("num_bins", num_bins, most=MOST)


def sums_in_bins(p: Any, num_bins: int, values: Sequence[Any]) -> list[Any]:
    """The sums of each of the values over the examples whose p is in a bin.

    Bin m is (m / num_bins, (m + 1) / num_bins], closed on the right as in Guo et al. 2017, so that
    1 is in the last one; 0 is in the first.

    Args:
        p: forecasts of K events, an array or a tensor of shape (N, K).
        num_bins: bins of each event's forecast.
        values: what is added up, each of the shape of p.

    Returns:
        Sums of shape (K, num_bins), one for each of the values.
    """
    edges, K = np.arange(1, num_bins) / num_bins, p.shape[1]
    first, shape, size = num_bins * np.arange(K), (K, num_bins), K * num_bins
    if isinstance(p, np.ndarray):
        index = (np.searchsorted(edges, p, side="left") + first).ravel()
        return [np.bincount(index, v.ravel(), size).reshape(shape) for v in values]
    bins = tf.reshape(tf.searchsorted(edges, tf.reshape(p, [-1]), side="left"), tf.shape(p))
    index = bins + tf.constant(first, bins.dtype)
    return [tf.reshape(tf.math.unsorted_segment_sum(v, index, size), shape) for v in values]


def of_events(
    summands: Formula, value: Formula, p: np.ndarray, outcome: np.ndarray, num_bins: int
) -> np.ndarray:
    """The values of K events, along the last axis, from sums in bins of each one's forecasts.

    Args:
        summands: what is added up, of forecasts and outcomes, shape (N, K).
        value: what follows from the sums, each of shape (K, num_bins).
        p: forecasts, shape (N, K).
        outcome: whether the events came true, shape (N, K).
        num_bins: bins of each forecast.

    Raises:
        ValueError: if num_bins is no number of bins.
    """
    step = max(1, MOST // max(len(p), number_of_bins(num_bins)))  # events at a time, for memory
    made = []
    for start in range(0, p.shape[1], step):
        some, came_true = (each[:, start : start + step] for each in (p, outcome))
        made.append(value(*sums_in_bins(some, num_bins, summands(some, came_true))))
    return np.concatenate(made, axis=-1)
