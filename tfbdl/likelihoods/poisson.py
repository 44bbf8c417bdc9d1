"""Counts."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.likelihoods.base import HALF_LOG_2PI_E, Likelihood, sum_over_example, wide
from tfbdl.probability import tfp

_SUMMED_BELOW = 30.0
_TERMS = 120


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class Poisson(Likelihood):
    """y ~ Poisson(exp(outputs)), elementwise: the outputs are log rates."""

    is_discrete = True

    def __init__(self, name: str = "poisson", **kwargs: object) -> None:
        super().__init__(name=name, **kwargs)

    def distribution(self, outputs: tf.Tensor) -> tfp.distributions.Distribution:
        return tfp.distributions.Poisson(log_rate=wide(outputs))

    def check_targets(self, y: Any, outputs: tf.Tensor) -> None:
        super().check_targets(y, outputs)
        y = np.asarray(y)
        wrong = y[(y < 0) | (y != np.floor(y))]
        if wrong.size:
            raise ValueError(f"y has the value {wrong[0]:g}; give counts 0, 1, ...")

    def entropy(self, outputs: tf.Tensor) -> tf.Tensor:
        """Lambda (1 - log lambda) + E[log k!], summed over the example, in nats.

        The expectation is summed up where all its mass is in the first terms; above, its
        asymptotic series in 1 / lambda is exact to 1e-7 (Evans and Boersma 1988).
        """
        log_rate = wide(outputs)
        rate = tf.exp(log_rate)
        k = tf.range(_TERMS, dtype=rate.dtype)
        log_factorial = tf.math.lgamma(k + 1.0)
        summed = tf.minimum(rate, _SUMMED_BELOW)[..., None]
        log_p = tf.math.xlogy(k, summed) - summed - log_factorial
        below = tf.reduce_sum(-tf.exp(log_p) * log_p, axis=-1)
        large = tf.maximum(rate, _SUMMED_BELOW)
        above = HALF_LOG_2PI_E + 0.5 * tf.math.log(large)
        above -= 1 / (12 * large) + 1 / (24 * large**2) + 19 / (360 * large**3)
        return sum_over_example(tf.where(rate < _SUMMED_BELOW, below, above))
