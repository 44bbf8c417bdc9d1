"""Counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.inherited_arguments import LossArguments, Unpack
from tfbdl.likelihoods.base import HALF_LOG_2PI_E, Likelihood, expected_in_natural_form
from tfbdl.likelihoods.incomplete_gamma import upper_gamma
from tfbdl.likelihoods.positions import sum_over_position
from tfbdl.likelihoods.targets import match, wide
from tfbdl.probability import tfp
from tfbdl.tensorflow_private import custom_gradient

_SUMMED_BELOW = math.log(30.0)
_TERMS = 120
_STIRLING_FROM = 8.0
_LESS = (57281 / 1440, 33953 / 5040, 1375 / 1008, 863 / 2520, 9 / 80, 19 / 360, 1 / 24, 1 / 12)
"""Coefficients of powers 8 to 1 of 1 / lambda, by which entropy is below log(2 pi e lambda) / 2."""


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class Poisson(Likelihood):
    """y ~ Poisson(exp(outputs)), elementwise: the outputs are log rates.

    Rates, which are mean and variance, and with them log probabilities, overflow to infinity above
    log rates of 88.7 in float32 and 709.7 in float64; `tfbdl.predict` refuses that. The entropy is
    right for all. A negative count has the log probability NaN.

    Args:
        **kwargs: `reduction` and `dtype`; like `name` as in `keras.losses.Loss`.
    """

    is_discrete = True

    def __init__(self, name: str = "poisson", **kwargs: Unpack[LossArguments]) -> None:
        super().__init__(name=name, **kwargs)

    def distribution(self, outputs: tf.Tensor) -> tfp.distributions.Distribution:
        return tfp.distributions.Poisson(log_rate=wide(outputs))

    @property
    def outputs_hold(self) -> str:
        return "log rates"

    def log_prob_of_elements(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return _log_prob(match(y, outputs.shape), outputs)

    @property
    def has_expectation(self) -> bool:
        return True

    def expected_log_prob(self, y: tf.Tensor, outputs: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        return expected_in_natural_form(self, y, outputs, variance)

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        return tf.exp(wide(outputs))

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        return tf.exp(wide(outputs))

    def cdf(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """P(Y <= y), right to 1e-6 in float32, however large the counts."""
        log_rate = wide(outputs)
        y = tf.cast(y, tf.float64)
        below = tf.zeros_like(log_rate)
        return tf.where(y < 0, below, _cdf(tf.floor(tf.maximum(y, 0.0)), log_rate))

    def check_targets(self, y: Any, outputs: tf.Tensor) -> None:
        super().check_targets(y, outputs)
        check_counts(y)

    def entropy(self, outputs: tf.Tensor) -> tf.Tensor:
        """Lambda (1 - log lambda) + E[log k!], summed over the example, in nats.

        The expectation is summed up where all its mass is in the first terms; above, its
        asymptotic series in 1 / lambda is exact to 1e-10 (Evans and Boersma 1988).
        """
        log_rate = wide(outputs)
        lowest = math.log(np.finfo(log_rate.dtype.as_numpy_dtype).tiny)
        low = tf.clip_by_value(log_rate, lowest, _SUMMED_BELOW)[..., None]
        k = tf.range(_TERMS, dtype=log_rate.dtype)
        log_p = k * low - tf.exp(low) - tf.math.lgamma(k + 1.0)
        below = tf.reduce_sum(-tf.exp(log_p) * log_p, axis=-1)
        high = tf.maximum(log_rate, _SUMMED_BELOW)
        inverse = tf.exp(-high)
        less = inverse * tf.math.polyval([tf.constant(c, high.dtype) for c in _LESS], inverse)
        above = HALF_LOG_2PI_E + 0.5 * high - less
        return sum_over_position(tf.where(log_rate < _SUMMED_BELOW, below, above))


def check_counts(y: Any) -> None:
    """Raises ValueError unless all targets are counts."""
    y = np.asarray(y)
    wrong = y[~((y >= 0) & (y == np.floor(y)))]
    if wrong.size:
        raise ValueError(f"y has the value {wrong[0]:g}; give counts 0, 1, ...")


def _log_prob(y: tf.Tensor, log_rate: tf.Tensor) -> tf.Tensor:
    """Log p of counts; of large ones around their mode, whose terms would cancel otherwise.

    With d = log(rate / y) it is y (d - exp(d) + 1) less Stirling's log(y! (e / y)^y).
    """
    large = y >= _STIRLING_FROM
    few, many = tf.where(large, tf.zeros_like(y), y), tf.where(large, y, _STIRLING_FROM)
    low = tf.where(large, tf.zeros_like(log_rate), log_rate)
    direct = few * low - tf.exp(low) - tf.math.lgamma(few + 1.0)
    log_many = tf.math.log(many)
    d = tf.where(large, log_rate, log_many) - log_many
    stirling = 0.5 * (math.log(2.0 * math.pi) + log_many) + tfp.math.log_gamma_correction(many)
    log_p = tf.where(large, many * (d - tf.math.expm1(d)) - stirling, direct)
    return tf.where(y < 0, tf.constant(math.nan, y.dtype), log_p)


def _cdf(k: tf.Tensor, log_rate: tf.Tensor) -> tf.Tensor:
    """P(Y <= k) for k = 0, 1, ... in float64; in its derivative all terms but one cancel."""

    @custom_gradient
    def of_rate(log_rate: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        finite = tf.minimum(log_rate, math.log(log_rate.dtype.max) - 1e-3)
        p = upper_gamma(k + 1.0, tf.cast(log_rate, k.dtype))
        count = tf.cast(k, log_rate.dtype)
        return (
            tf.cast(p, log_rate.dtype),
            lambda upstream: -upstream * tf.exp(_log_prob(count, finite) + finite),
        )

    return of_rate(log_rate)
