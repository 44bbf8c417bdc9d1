"""Real numbers between 0 and 1, such as grey pixels."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import scipy.special
import tensorflow as tf

from tfbdl import random
from tfbdl.inherited_arguments import LossArguments, Unpack
from tfbdl.likelihoods.base import Likelihood
from tfbdl.likelihoods.positions import sum_over_position
from tfbdl.likelihoods.targets import check_range, match, wide
from tfbdl.probability import tfp

_EVEN = np.arange(2, 18, 2)
_SERIES = scipy.special.bernoulli(16)[2::2] / (_EVEN * scipy.special.factorial(_EVEN))
"""a_1, a_2, ... in log((exp(h) - 1) / h) = h / 2 + a_1 h^2 + a_2 h^4 + ..., for |h| < 2 pi."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class ContinuousBernoulli(Likelihood):
    """Density proportional to exp(logit x) on [0, 1] (Loaiza-Ganem and Cunningham 2019).

    The log normaliser is log((exp(h) - 1) / h) for logit h. Near 0, where that form and its
    derivatives lose their digits, the series of them is used.

    Args:
        **kwargs: `reduction` and `dtype`; like `name` as in `keras.losses.Loss`.
    """

    def __init__(self, name: str = "continuous_bernoulli", **kwargs: Unpack[LossArguments]) -> None:
        super().__init__(name=name, **kwargs)

    def distribution(self, outputs: tf.Tensor) -> tfp.distributions.Distribution:
        return tfp.distributions.ContinuousBernoulli(logits=wide(outputs))

    def log_prob_of_elements(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        y = match(y, outputs.shape)
        small, near, m = _split(outputs)
        series = (y - 0.5) * near - tf.square(near) * _powers(near, _SERIES)
        above = tf.where(outputs > 0, tf.ones_like(y), tf.zeros_like(y))
        return tf.where(small, series, (y - above) * outputs - _log_mass(m))

    def check_targets(self, y: Any, outputs: tf.Tensor) -> None:
        super().check_targets(y, outputs)
        check_range(y, 0, 1)

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        """1 / (1 - exp(-h)) - 1 / h for logits h."""
        logits = wide(outputs)
        small, near, m = _split(logits)
        series = 0.5 + near * _powers(near, _EVEN * _SERIES)
        lower = 1.0 / m + tf.exp(-m) / tf.math.expm1(-m)
        return tf.where(small, series, tf.where(logits > 0, 1.0 - lower, lower))

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        """1 / h^2 - 1 / (2 sinh(h / 2))^2 for logits h."""
        small, near, m = _split(wide(outputs))
        series = _powers(near, (_EVEN - 1) * _EVEN * _SERIES)
        return tf.where(small, series, (1.0 / m) ** 2 - tf.exp(-m) / tf.math.expm1(-m) ** 2)

    def entropy(self, outputs: tf.Tensor) -> tf.Tensor:
        """The log normaliser less h times the mean, summed over the example, in nats."""
        small, near, m = _split(wide(outputs))
        series = tf.square(near) * _powers(near, (1 - _EVEN) * _SERIES)
        exact = 1.0 + m * tf.exp(-m) / tf.math.expm1(-m) + _log_mass(m)
        return sum_over_position(tf.where(small, series, exact))

    def cdf(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """(exp(h y) - 1) / (exp(h) - 1) for logits h; near 0 by quadrature of the density."""
        logits = wide(outputs)
        y = tf.clip_by_value(tf.cast(y, logits.dtype), 0.0, 1.0)
        small, near, m = _split(logits)
        integral = y * _mean_of_exp(near * y) / _mean_of_exp(near)
        exact = tf.exp(-m * tf.where(logits > 0, 1.0 - y, tf.zeros_like(y)))
        exact *= tf.math.expm1(-m * y) / tf.math.expm1(-m)
        return tf.where(small, integral, exact)

    def sample(self, key: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Samples by inversion of the distribution function, whose steep end has all its digits."""
        logits = wide(outputs)
        below, above = random.tails(key, tf.shape(logits), logits.dtype)
        m = tf.maximum(tf.abs(logits), 1e-6)
        log_rest = tf.where(
            m < 1.0,
            tf.math.log1p(below * tf.math.expm1(-m)),
            tf.math.log(above + below * tf.exp(-m)),
        )
        lower = tf.clip_by_value(-log_rest / m, 0.0, 1.0)
        return tf.where(logits > 0, 1.0 - lower, lower)


def _split(logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """A mask of |h| < 1; h there, else 0; and |h| elsewhere, else 1."""
    small = tf.abs(logits) < 1.0
    near = tf.where(small, logits, tf.zeros_like(logits))
    return small, near, tf.where(small, tf.ones_like(logits), tf.abs(logits))


def _log_mass(m: tf.Tensor) -> tf.Tensor:
    """Log of the integral of exp(-m x) over [0, 1]."""
    return tf.math.log(-tf.math.expm1(-m)) - tf.math.log(m)


def _powers(h: tf.Tensor, coefficients: np.ndarray) -> tf.Tensor:
    """The sum over k of c_k h^2k, k = 0, 1, ..."""
    return tf.math.polyval([tf.constant(c, h.dtype) for c in coefficients[::-1]], tf.square(h))


def _mean_of_exp(h: tf.Tensor) -> tf.Tensor:
    """The integral of exp(h x) over [0, 1], for |h| < 1, by Gauss and Legendre."""
    terms = zip(_NODES, _WEIGHTS, strict=True)
    return tf.add_n([0.5 * w * tf.exp(0.5 * (1.0 + t) * h) for t, w in terms])
