"""Likelihoods p(x | logits) of pixels in [0, 1], one logit a pixel."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import choose


class Pixels:
    """What a likelihood of pixels answers; all are elementwise in the logits."""

    def log_prob(self, x: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Log likelihood of each pixel, in nats."""
        raise NotImplementedError

    def mean(self, logits: tf.Tensor) -> tf.Tensor:
        """E[x] of each pixel."""
        raise NotImplementedError

    def sample(self, key: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """One x of each pixel, from the noise of `key` (see `tfbdl.random`)."""
        raise NotImplementedError


class Bernoulli(Pixels):
    """x in {0, 1} with P(x = 1) = sigmoid(logit).

    On grey pixels x log p + (1 - x) log(1 - p) is no log density (it does not integrate to 1), as
    the slides remark; it is then only a score in which equal models can be compared.
    """

    def log_prob(self, x: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return -tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits)

    def mean(self, logits: tf.Tensor) -> tf.Tensor:
        return tf.sigmoid(logits)

    def sample(self, key: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        u = random.uniform(key, tf.shape(logits), logits.dtype)
        return tf.cast(u < tf.sigmoid(logits), logits.dtype)


class ContinuousBernoulli(Pixels):
    """Density proportional to exp(logit x) on [0, 1] (Loaiza-Ganem and Cunningham 2019).

    The log normaliser is log((exp(h) - 1) / h) for logit h. Near 0, where that form loses all its
    digits, its series is used.
    """

    def log_prob(self, x: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return x * logits - self.log_normaliser(logits)

    def mean(self, logits: tf.Tensor) -> tf.Tensor:
        """E[x] of each pixel, 1 / (1 - exp(-h)) - 1 / h."""
        small, safe = _split(logits)
        series = 0.5 + logits / 12.0 - logits**3 / 720.0
        magnitude = tf.abs(safe)
        lower = 1.0 / magnitude + tf.exp(-magnitude) / tf.math.expm1(-magnitude)
        return tf.where(small, series, tf.where(safe > 0, 1.0 - lower, lower))

    def sample(self, key: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """One x of each pixel, by inversion."""
        u = random.uniform(key, tf.shape(logits), logits.dtype)
        magnitude = tf.maximum(tf.abs(logits), 1e-6)
        lower = tf.minimum(-tf.math.log1p(u * tf.math.expm1(-magnitude)) / magnitude, 1.0)
        return tf.where(logits > 0, 1.0 - lower, lower)

    def log_normaliser(self, logits: tf.Tensor) -> tf.Tensor:
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


_NAMES: dict[str, type[Pixels]] = {
    "bernoulli": Bernoulli,
    "continuous_bernoulli": ContinuousBernoulli,
}


def get(name: str) -> Pixels:
    """The likelihood of that name.

    Raises:
        ValueError: if the name is unknown.
    """
    return choose("likelihood", name, Pixels, _NAMES)


def check(x: np.ndarray, likelihood: str) -> None:
    """Raises ValueError unless all values of x are in [0, 1], where the likelihoods hold."""
    if not np.isfinite(x).all():
        raise ValueError("x is not finite; remove or fill in NaN and Inf")
    if x.min() < 0 or x.max() > 1:
        raise ValueError(
            f"x has values from {x.min():g} to {x.max():g}; likelihood={likelihood!r} needs "
            "pixels in [0, 1] (divide by 255)"
        )
