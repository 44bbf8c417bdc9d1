"""What is left of log Gamma and its derivatives after Stirling's terms, which cancel in densities.

Each is of x > 0, to full relative precision at both ends, and takes its gradient through log x: x
itself may have underflowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from tfbdl.probability import tfp
from tfbdl.tensorflow_private import custom_gradient

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_FROM = 8.0
_PSI = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12)
"""Coefficients of x^-14 to x^-2 by which digamma is below log x - 1 / (2 x)."""
_TRIGAMMA = (7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6)
"""Coefficients of x^-15 to x^-3 by which trigamma is above 1 / x + 1 / (2 x^2)."""

Gradient = Callable[[tf.Tensor], tf.Tensor]


def stirling_error(x: tf.Tensor, log_x: tf.Tensor) -> tf.Tensor:
    """C(x) = log Gamma(x + 1) - (x + 1/2) log x + x - log(2 pi) / 2, from infinity down to 0."""

    @custom_gradient
    def of_log(log_x: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
        large, few, many = _split(x)
        log_few = tf.where(large, tf.zeros_like(x), log_x)
        direct = tf.math.lgamma(few + 1.0) - (few + 0.5) * log_few + few - HALF_LOG_2PI
        value = tf.where(large, tfp.math.log_gamma_correction(many), direct)
        return value, lambda upstream: upstream * (digamma_rest(x, log_x) + 0.5)

    return of_log(log_x)


def digamma_rest(x: tf.Tensor, log_x: tf.Tensor) -> tf.Tensor:
    """M(x) = x (psi(x) - log x), from -1 up to -1/2."""

    @custom_gradient
    def of_log(log_x: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
        large, few, many = _split(x)
        log_few = tf.where(large, tf.zeros_like(x), log_x)
        direct = few * (tf.math.digamma(few + 1.0) - log_few) - 1.0
        inverse = 1.0 / many
        value = tf.where(large, -0.5 - inverse * polynomial(_PSI, inverse * inverse), direct)
        return value, lambda upstream: upstream * (value + trigamma_rest(x))

    return of_log(log_x)


def trigamma_rest(x: tf.Tensor) -> tf.Tensor:
    """P(x) = x^2 (psi'(x) - 1 / x), from 1 down to 1/2."""
    large, few, many = _split(x)
    inverse = 1.0 / many
    series = 0.5 + inverse * polynomial(_TRIGAMMA, inverse * inverse)
    direct = 1.0 - few + few * few * tf.math.polygamma(tf.ones_like(few), few + 1.0)
    return tf.where(large, series, direct)


def polynomial(coefficients: Sequence[float], x: tf.Tensor) -> tf.Tensor:
    """The polynomial with these coefficients, highest power first, in the type of x."""
    return tf.math.polyval([tf.constant(c, x.dtype) for c in coefficients], x)


def _split(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Whether x is large; x where it is small, else 1; and where it is large, else the least."""
    large = x >= _FROM
    return (
        large,
        tf.where(large, tf.ones_like(x), x),
        tf.where(large, x, tf.constant(_FROM, x.dtype)),
    )
