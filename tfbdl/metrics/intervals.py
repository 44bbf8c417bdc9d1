"""Intervals held against targets, element by element."""

from __future__ import annotations

import tensorflow as tf


def covered(y: tf.Tensor, lower: tf.Tensor, upper: tf.Tensor) -> tf.Tensor:
    """1 where lower <= y <= upper, else 0; all of one shape."""
    return tf.cast((lower <= y) & (y <= upper), y.dtype)


def score(y: tf.Tensor, lower: tf.Tensor, upper: tf.Tensor, level: float) -> tf.Tensor:
    """The interval score of Gneiting and Raftery 2007, equation 43; all of one shape."""
    outside = tf.nn.relu(lower - y) + tf.nn.relu(y - upper)
    return upper - lower + 2.0 / (1.0 - level) * outside
