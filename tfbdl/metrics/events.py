"""Events that are forecast with a probability, in bins of it: what follows from sums in the bins.

A classifier forecasts that its prediction is right, with its confidence, and each class, with the
probability of that. What is asked of the forecasts is two functions: `summands` of forecasts and
outcomes, shape (N, K) of K events, and `result` of their sums in each bin, shape (K, num_bins).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfbdl.metrics import array_checks, eager
from tfbdl.metrics.bins import number_of_bins, sums_in_bins
from tfbdl.metrics.top_class import top_class

Summands = Callable[[tf.Tensor, tf.Tensor], list[tf.Tensor]]

_MOST_AT_ONCE = 1_000_000
"""Forecasts, or bins, that are in memory at a time."""


def of_confidence(summands: Summands, result: Callable[..., Any], y: Any, p: Any, bins: int) -> Any:
    """The result for the event that the prediction is right: arrays, one row each.

    Raises:
        ValueError: if y are no labels, p no probabilities, or `bins` no number of bins.
    """
    num_bins = number_of_bins(bins)

    def formula(label: tf.Tensor, p: tf.Tensor) -> Any:
        return _binned(summands, result, *(v[:, None] for v in top_class(label, p)), num_bins)

    return eager.computed(formula, *array_checks.classes(y, p))


def of_classes(summands: Summands, result: Callable[..., Any], y: Any, p: Any, bins: int) -> Any:
    """The result for the classes, each an event: an array whose last axis are these.

    Raises:
        ValueError: if y are no labels, p no probabilities, or `bins` no number of bins.
    """
    num_bins = number_of_bins(bins)
    y, p = array_checks.classes(y, p)

    def formula(label: tf.Tensor, p: tf.Tensor) -> Any:
        outcome = tf.one_hot(label, p.shape[1], dtype=p.dtype)
        return _binned(summands, result, p, outcome, num_bins)

    step = max(1, _MOST_AT_ONCE // max(len(y), num_bins))
    starts = range(0, p.shape[1], step)
    made = [eager.computed(formula, y - start, p[:, start : start + step]) for start in starts]
    return np.concatenate(made, axis=-1)


def _binned(
    summands: Summands,
    result: Callable[..., Any],
    p: tf.Tensor,
    outcome: tf.Tensor,
    num_bins: int,
) -> Any:
    values = summands(p, tf.cast(outcome, p.dtype))
    return result(*sums_in_bins(p, num_bins, values))
