"""Equal bins of [0, 1], and sums of values in them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfbdl.arguments import positive_integer

MOST = 1_000_000
"""Bins, beyond which hardly one has two examples."""


def number_of_bins(num_bins: int) -> int:
    """`num_bins`, if it is a positive integer up to a million.

    Raises:
        ValueError: if it is not.
    """
    return positive_integer("num_bins", num_bins, most=MOST)


def bin_index(p: tf.Tensor, num_bins: int) -> tf.Tensor:
    """Bin m of each p, which is in (m / num_bins, (m + 1) / num_bins]; 0 is in the first.

    Closed on the right as in Guo et al. 2017, so that 1 is in the last bin.
    """
    edges = tf.constant(np.arange(1, num_bins) / num_bins, p.dtype)
    return tf.reshape(tf.searchsorted(edges, tf.reshape(p, [-1]), side="left"), tf.shape(p))


def sums_in_bins(p: tf.Tensor, num_bins: int, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The sums of each of the values over the examples whose p is in a bin.

    Args:
        p: forecasts of K events, shape (N, K).
        num_bins: bins of each event's forecast.
        values: what is added up, each of the shape of p.

    Returns:
        Sums of shape (K, num_bins), one for each of the values.
    """
    shape = (p.shape[1], num_bins)
    index = bin_index(p, num_bins) + num_bins * tf.range(p.shape[1])
    return [
        tf.reshape(tf.math.unsorted_segment_sum(each, index, shape[0] * num_bins), shape)
        for each in values
    ]
