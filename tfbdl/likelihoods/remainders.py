"""The exponential and the logarithm less their terms of first order, which cancel near 0."""

from __future__ import annotations

import math

import tensorflow as tf

from tfbdl.likelihoods.stirling import polynomial

_NEAR = 0.35
_ATANH = tuple(1 / (2 * k + 3) for k in reversed(range(12)))
_EXP = tuple(1 / math.factorial(k) for k in range(14, 1, -1))


def log_remainder(e: tf.Tensor, log_of_sum: tf.Tensor) -> tf.Tensor:
    """E - log(1 + e) for e >= -1; the logarithm is given, for e near -1.

    Near 0 it is v (e - 2 v^2 (1/3 + v^2 / 5 + ...)) with v = e / (2 + e).
    """
    near, edge = tf.abs(e) < _NEAR, e < -0.9
    small = tf.where(near, e, tf.zeros_like(e))
    v = small / (2.0 + small)
    series = v * (small - 2.0 * v * v * polynomial(_ATANH, v * v))
    log_sum = tf.where(edge, log_of_sum, tf.math.log1p(tf.where(edge, tf.zeros_like(e), e)))
    return tf.where(near, series, e - log_sum)


def exp_remainder(d: tf.Tensor) -> tf.Tensor:
    """exp(d) - 1 - d."""
    near = tf.abs(d) < _NEAR
    small = tf.where(near, d, tf.zeros_like(d))
    far = tf.where(near, tf.zeros_like(d), d)
    return tf.where(near, small * small * polynomial(_EXP, small), tf.math.expm1(far) - far)
