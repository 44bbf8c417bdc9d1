"""The continuous ranked probability score, element by element (Gneiting and Raftery 2007)."""

from __future__ import annotations

import math

import tensorflow as tf


def of_normal(y: tf.Tensor, mean: tf.Tensor, stddev: tf.Tensor) -> tf.Tensor:
    """The score of N(mean, stddev^2), in the units of y; all of one shape, as the scores are."""
    error = y - mean
    z = error / stddev
    density = tf.exp(-0.5 * tf.square(z)) / math.sqrt(2.0 * math.pi)
    of_z = tf.math.erf(tf.clip_by_value(z, -10.0, 10.0) / math.sqrt(2.0))  # NaN far outside
    return error * of_z + stddev * (2.0 * density - 1.0 / math.sqrt(math.pi))


def of_samples(y: tf.Tensor, samples: tf.Tensor, axis: int, fair: bool = False) -> tf.Tensor:
    """The score of the empirical law of S samples along an axis, of the shape of y.

    Sorted samples x_(1) <= ... <= x_(S) have E|X - X'| = 2 / S^2 sum_i (2 i - S - 1) x_(i); for
    two different ones (`fair`) S (S - 1) is in the place of S^2.
    """
    deviations = tf.sort(samples - tf.expand_dims(y, axis), axis=axis)
    size = tf.shape(deviations)[axis]
    ranks = tf.cast(2 * tf.range(1, size + 1) - size - 1, deviations.dtype)
    half_difference = tf.tensordot(deviations, ranks, [[axis], [0]])
    half_difference /= tf.cast(size * (size - 1 if fair else size), ranks.dtype)
    return tf.reduce_mean(tf.abs(deviations), axis=axis) - half_difference
