"""Equal bins of [0, 1], and sums of values in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from tfbdl.arguments import positive_integer
from tfbdl.metrics import array_checks
from tfbdl.metrics.either import one_hot

MOST = 1_000_000
"""Bins, beyond which hardly one has two examples."""

_MOST_AT_ONCE = 1_000_000
"""Forecasts, or bins, that are in memory at a time."""


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


def of_classes(
    summands: Callable[[Any, Any], Sequence[Any]],
    result: Callable[..., Any],
    y: ArrayLike,
    p: ArrayLike,
    num_bins: int,
) -> np.ndarray:
    """What follows from sums in bins for each class, an event that is forecast with its p.

    Args:
        summands: what is added up, of forecasts and outcomes, shape (N, K).
        result: an array of K columns, from the sums in each bin, shape (K, num_bins).
        y: integer labels, as in `array_checks.classes`.
        p: class probabilities.
        num_bins: bins of each class's forecast.

    Raises:
        ValueError: if y are no labels, p no probabilities, or num_bins no number of bins.
    """
    num_bins = number_of_bins(num_bins)
    y, p = array_checks.classes(y, p)
    step, made = max(1, _MOST_AT_ONCE // max(len(p), num_bins)), []
    for start in range(0, p.shape[1], step):
        some = p[:, start : start + step]
        made.append(result(*sums_in_bins(some, num_bins, summands(some, one_hot(y - start, some)))))
    return np.concatenate(made, axis=-1)
