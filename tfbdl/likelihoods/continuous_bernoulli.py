"""Real numbers between 0 and 1, such as grey pixels."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.likelihoods.base import Likelihood, check_range, match, wide
from tfbdl.probability import tfp


@keras.saving.register_keras_serializable(package="tfbdl.likelihoods")
class ContinuousBernoulli(Likelihood):
    """Density proportional to exp(logit x) on [0, 1] (Loaiza-Ganem and Cunningham 2019).

    The log normaliser is log((exp(h) - 1) / h) for logit h. Near 0, where that form loses all its
    digits, its series is used.
    """

    def __init__(self, name: str = "continuous_bernoulli", **kwargs: object) -> None:
        super().__init__(name=name, **kwargs)

    def distribution(self, outputs: tf.Tensor) -> tfp.distributions.Distribution:
        return tfp.distributions.ContinuousBernoulli(logits=wide(outputs))

    def log_prob_of_elements(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return match(y, outputs.shape) * outputs - _log_normaliser(outputs)

    def check_targets(self, y: Any, outputs: tf.Tensor) -> None:
        super().check_targets(y, outputs)
        check_range(y, 0, 1)

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        """1 / (1 - exp(-h)) - 1 / h for logits h."""
        logits = wide(outputs)
        small, safe = _split(logits)
        series = 0.5 + logits / 12.0 - logits**3 / 720.0
        magnitude = tf.abs(safe)
        lower = 1.0 / magnitude + tf.exp(-magnitude) / tf.math.expm1(-magnitude)
        return tf.where(small, series, tf.where(safe > 0, 1.0 - lower, lower))

    def sample(self, key: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """By inversion of the distribution function, whose steep end has all its digits."""
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


def _log_normaliser(logits: tf.Tensor) -> tf.Tensor:
    """Log of the integral of exp(logit x) over [0, 1]."""
    small, safe = _split(logits)
    series = logits / 2.0 + logits**2 / 24.0 - logits**4 / 2880.0
    magnitude = tf.abs(safe)
    exact = tf.math.log(-tf.math.expm1(-magnitude)) - tf.math.log(magnitude)
    return tf.where(small, series, tf.nn.relu(safe) + exact)


def _split(logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Where the series holds, and logits that are harmless there for the other branch."""
    small = tf.abs(logits) < 0.1
    return small, tf.where(small, tf.ones_like(logits), logits)
