"""Numbers so close to 0 that TensorFlow takes them for 0."""

from __future__ import annotations

import math

import tensorflow as tf


def float64(values: tf.Tensor) -> tf.Tensor:
    """The values in float64; float32 below 1e-38 too, which `tf.cast` makes 0, if positive."""
    wide = tf.cast(values, tf.float64)
    if values.dtype != tf.float32:
        return wide
    steps = tf.bitcast(values, tf.int32)  # of 2^-149, below 2^-126
    exact = tf.cast(steps, tf.float64) * 2.0**-149
    return tf.where((steps > 0) & (steps < 2**23), exact, wide)


def log(p: tf.Tensor) -> tf.Tensor:
    """Log p of float64, p >= 0; below 2e-308 too, where `tf.math.log` is -inf."""
    steps = tf.bitcast(p, tf.int64)  # of 2^-1074, below 2^-1022
    exact = tf.math.log(tf.cast(steps, tf.float64)) - 1074.0 * math.log(2.0)
    return tf.where((steps > 0) & (steps < 2**52), exact, tf.math.log(p))
