"""The regularised incomplete gamma function, whatever its size: TensorFlow's is wrong where large.

It is computed in float64. Around the mean of a large a it is Temme's uniform expansion (N. Temme,
"The asymptotic expansion of the incomplete gamma functions", SIAM J. Math. Anal. 1979); elsewhere
TensorFlow's series and continued fraction end in time.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np
import tensorflow as tf

from tfbdl.likelihoods.remainders import exp_remainder

_FROM = 20.0
_FAR = 1500.0
"""The a from which on all that lies outside |eta| < 1 is 0 or 1."""
_ORDERS, _POWERS = 12, 26


def upper_gamma(a: tf.Tensor, log_x: tf.Tensor) -> tf.Tensor:
    """Q(a, x) = Gamma(a, x) / Gamma(a), in float64.

    Args:
        a: positive, float64.
        log_x: log x, float64, of the same shape.
    """
    d = log_x - tf.math.log(a)
    eta = tf.sign(d) * tf.sqrt(2.0 * exp_remainder(tf.minimum(d, 700.0)))
    uniform = (a >= _FROM) & ((tf.abs(eta) < 1.0) | (a >= _FAR))
    small = tf.where(uniform, tf.ones_like(a), a)
    x = tf.exp(tf.minimum(tf.where(uniform, tf.zeros_like(a), log_x), 709.0))
    large = tf.where(uniform, a, tf.fill(tf.shape(a), tf.constant(_FROM, a.dtype)))
    return tf.where(uniform, _temme(large, eta), tf.math.igammac(small, x))


def _temme(a: tf.Tensor, eta: tf.Tensor) -> tf.Tensor:
    """Erfc(eta sqrt(a / 2)) / 2 + exp(-a eta^2 / 2) / sqrt(2 pi a) sum_k C_k(eta) a^-k."""
    near = tf.clip_by_value(eta, -1.0, 1.0)
    table = tf.constant(temme_coefficients(_ORDERS, _POWERS), a.dtype)
    of_orders = [tf.math.polyval(tf.unstack(row[::-1]), near) for row in tf.unstack(table)]
    rest = tf.math.polyval(of_orders[::-1], 1.0 / a)
    density = tf.exp(-0.5 * a * eta * eta) / tf.sqrt(2.0 * math.pi * a)
    return 0.5 * tf.math.erfc(eta * tf.sqrt(0.5 * a)) + density * rest


@functools.cache
def temme_coefficients(orders: int, powers: int) -> np.ndarray:
    """C_k(eta) = sum_n c_kn eta^n, shape (orders, powers), from exact fractions.

    With x / a = 1 + mu and eta^2 / 2 = mu - log(1 + mu), so that mu mu' = eta (1 + mu):

        C_0 = 1 / mu - 1 / eta,        eta C_k = C_{k-1}' - c_{k-1,1} eta / mu
    """
    size = powers + 2 * orders + 1
    mu = [Fraction(0), Fraction(1)]
    for n in range(2, size + 1):
        products = sum(mu[i] * mu[n + 1 - i] for i in range(2, n))
        mu.append((2 * mu[n - 1] / (n + 1) - products) / 2)
    inverse = [Fraction(1)]  # the series of eta / mu
    for n in range(1, size):
        inverse.append(-sum((mu[i + 1] * inverse[n - i] for i in range(1, n + 1)), Fraction(0)))
    rows = [inverse[1:]]
    for _ in range(1, orders):
        c = rows[-1]
        rows.append([(n + 2) * c[n + 2] - c[1] * inverse[n + 1] for n in range(len(c) - 2)])
    return np.array([[float(c) for c in row[:powers]] for row in rows])
