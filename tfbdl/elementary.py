"""Elementary functions in float32: more exact than TensorFlow's, and faster under XLA on the CPU.

A network with a distribution for each weight computes them for each weight, and TensorFlow's own
spend their time there on logarithms. In other types they are TensorFlow's.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from functools import reduce

import tensorflow as tf

from tfbdl.tensorflow_private import custom_gradient
from tfbdl.tensorflow_private_lanes import bitcast

Gradient = Callable[[tf.Tensor], tf.Tensor]
Gradients = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]

_ARTANH = tuple(1.0 / (k * 2.0 ** (k - 1)) for k in (13, 11, 9, 7, 5, 3, 1))
"""Coefficients of 2 artanh(t / 2) = t (1 + t^2 / 12 + t^4 / 80 + ...), highest power first."""
_LEAST = {
    tf.float16: 2.0**-14,
    tf.bfloat16: 2.0**-126,
    tf.float32: 2.0**-126,
    tf.float64: 2.0**-1022,
}
"""The least number that each type holds in full."""
_HALF_ROOT = 0x3F3504F3
"""The bits of sqrt(1/2)."""
_CENTRE = tuple(
    math.sqrt(2.0) * c
    for c in (
        *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 2.1858087e-04),
        *(-1.25372503e-03, -4.17768164e-03, 2.46640727e-01, 1.50140941),
    )
)
"""sqrt(2) times Giles' polynomial of erf^-1(x) / x, in -log(1 - x^2) - 2.5, for the centre."""
_TAIL = (
    *(6.285152e-05, -2.5161181e-04, -1.4115262e-05, 1.8558413e-03, -5.0767604e-03),
    *(8.1485268e-03, -1.0810313e-02, 1.3342013e-02, 1.4165829, 4.0064344),
)
"""Coefficients of sqrt(2) erf^-1(x) / x in sqrt(-log(1 - x^2)) - 3, for tails down to 2^-33.

Fitted to the least greatest relative error, 1e-7. Highest powers first, as all here.
"""


def softplus(x: tf.Tensor) -> tf.Tensor:
    """log(1 + exp(x)), to a relative error of 3e-7 wherever float32 holds it.

    It is max(x, 0) + log(1 + e) with e = exp(-|x|), where log(1 + e) = 2 artanh(t / 2) with
    t = e / (1 + e / 2) <= 2/3, whose series is short.

    Its gradient is lost where a compiled function is copied, as by `tf.vectorized_map`.
    """
    return _softplus(x) if x.dtype == tf.float32 else tf.math.softplus(x)


def log_of_softplus(x: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """log(softplus(x)) for any finite x, given `value` = softplus(x), which may have underflowed.

    Where it has, softplus(x) is exp(x) to all digits of the type.
    """
    if x.dtype == tf.float32:
        return _log_of_softplus(x, value)
    least = _LEAST[x.dtype]
    return tf.math.log(tf.maximum(value, least)) + tf.minimum(x - math.log(least), 0.0)


def norm(x: tf.Tensor) -> tf.Tensor:
    """Euclidean norms along the last axis, whose squares neither under- nor overflow."""
    largest = tf.stop_gradient(tf.reduce_max(tf.abs(x), axis=-1, keepdims=True))
    unit = tf.maximum(largest, _LEAST[x.dtype])
    squares = tf.reduce_sum(tf.square(x / unit), axis=-1)  # 1 at least, or of zeros
    return tf.squeeze(unit, -1) * tf.sqrt(tf.maximum(squares, 0.5))


def log(x: tf.Tensor) -> tf.Tensor:
    """The natural logarithm, to an error of 2e-7 of the larger of 1 and itself.

    With x = 2^k m and m within sqrt(2) of 1 it is k log 2 + 2 artanh(t / 2), where
    t = 2 (m - 1) / (m + 1). Numbers below 2^-126 count as 0.
    """
    return _log(x) if x.dtype == tf.float32 else tf.math.log(x)


def normal_quantile(below: tf.Tensor, above: tf.Tensor) -> tf.Tensor:
    """The z at which N(0, 1) has the probabilities `below` and `above`, whose sum is 1.

    The relative error is at most 4e-7 for x = below - above and tails down to 2^-33, where z is
    6.34. It is sqrt(2) erf^-1(x) by the first polynomial of Giles (2011, "Approximating the erfinv
    function", table 5), and where his second ends too early by one like it. Both are in the
    logarithm of 1 - x^2 = 4 below above, which is exact in the tails as x is not. It has no
    gradient.
    """
    if below.dtype != tf.float32:
        return math.sqrt(2.0) * tf.math.erfinv(below - above)
    return tf.stop_gradient(_normal_quantile(below, above))


def _traced_once(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """A graph for all shapes: many operations become one call."""
    each = tf.TensorSpec(None, tf.float32)
    signature = [each for _ in inspect.signature(function).parameters]
    graph = tf.function(function, signature, autograph=False)
    return lambda *xs: tf.ensure_shape(graph(*xs), xs[0].shape)


@_traced_once
def _normal_quantile(below: tf.Tensor, above: tf.Tensor) -> tf.Tensor:
    w = -_log_of_normal(4.0 * below * above)
    centre = _polynomial(_CENTRE, w - 2.5)
    tail = _polynomial(_TAIL, tf.sqrt(w) - 3.0)
    return (below - above) * tf.where(w < 5.0, centre, tail)


@custom_gradient
def _softplus(x: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
    return _value_of_softplus(x), lambda upstream: upstream * tf.sigmoid(x)


@_traced_once
def _value_of_softplus(x: tf.Tensor) -> tf.Tensor:
    e = tf.exp(-tf.abs(x))
    t = e / (1.0 + 0.5 * e)
    return tf.maximum(x, 0.0) + t * _polynomial(_ARTANH, t * t)


@custom_gradient
def _log_of_softplus(x: tf.Tensor, value: tf.Tensor) -> tuple[tf.Tensor, Gradients]:
    is_held = value >= _LEAST[tf.float32]

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        to_x = tf.where(is_held, tf.zeros_like(upstream), upstream)
        return to_x, upstream / tf.where(is_held, value, tf.ones_like(value))

    return tf.where(is_held, _value_of_log(value), x), gradient


@custom_gradient
def _log(x: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
    return _value_of_log(x), lambda upstream: upstream / x


@_traced_once
def _value_of_log(x: tf.Tensor) -> tf.Tensor:
    value = tf.where(x < math.inf, _log_of_normal(x), x)
    return tf.where(x < _LEAST[tf.float32], tf.where(x < 0.0, math.nan, -math.inf), value)


def _log_of_normal(x: tf.Tensor) -> tf.Tensor:
    """The logarithm of numbers that are positive, finite and not subnormal."""
    bits = bitcast(x, tf.int32)
    exponent = tf.bitwise.right_shift(bits - _HALF_ROOT, 23)
    m = bitcast(bits - tf.bitwise.left_shift(exponent, 23), tf.float32)
    t = 2.0 * (m - 1.0) / (m + 1.0)
    return math.log(2.0) * tf.cast(exponent, tf.float32) + t * _polynomial(_ARTANH[2:], t * t)


def _polynomial(coefficients: Sequence[float], x: tf.Tensor) -> tf.Tensor:
    """A polynomial by Horner's scheme, its coefficients highest power first."""
    first, *others = coefficients
    return reduce(lambda value, c: value * x + c, others, first * tf.ones_like(x))
