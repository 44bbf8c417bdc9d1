"""Likelihoods p(x | logits) of pixels in [0, 1], one logit a pixel."""

from __future__ import annotations

import tensorflow as tf

from tfbdl import random


class Bernoulli:
    """x in {0, 1} with P(x = 1) = sigmoid(logit).

    On grey pixels x log p + (1 - x) log(1 - p) is no log density (it does not integrate to 1), as
    the slides remark; it is then only a score in which equal models can be compared.
    """

    def log_prob(self, x: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Log likelihood of each pixel, in nats."""
        return -tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits)

    def mean(self, logits: tf.Tensor) -> tf.Tensor:
        """E[x] of each pixel."""
        return tf.sigmoid(logits)

    def sample(self, key: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """One x of each pixel."""
        u = random.uniform(key, tf.shape(logits), logits.dtype)
        return tf.cast(u < tf.sigmoid(logits), logits.dtype)


class ContinuousBernoulli:
    """Density proportional to exp(logit x) on [0, 1] (Loaiza-Ganem and Cunningham 2019).

    The log normaliser is log((exp(h) - 1) / h) for logit h. Near 0, where that form loses all its
    digits, its series is used.
    """

    def log_prob(self, x: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Log density of each pixel, in nats."""
        return x * logits - self.log_normaliser(logits)

    def mean(self, logits: tf.Tensor) -> tf.Tensor:
        """E[x] of each pixel, 1 / (1 - exp(-h)) - 1 / h."""
        small, safe = _split(logits)
        series = 0.5 + logits / 12.0 - logits**3 / 720.0
        return tf.where(small, series, -1.0 / tf.math.expm1(-safe) - 1.0 / safe)

    def sample(self, key: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """One x of each pixel, by inversion."""
        u = random.uniform(key, tf.shape(logits), logits.dtype)
        small, safe = _split(logits)
        magnitude = tf.abs(safe)
        upper = 1.0 + tf.math.log(u + (1.0 - u) * tf.exp(-magnitude)) / magnitude
        return tf.where(small, u, tf.where(safe > 0, upper, 1.0 - upper))

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


_NAMES: dict[str, type[Bernoulli | ContinuousBernoulli]] = {
    "bernoulli": Bernoulli,
    "continuous_bernoulli": ContinuousBernoulli,
}


def get(name: str) -> Bernoulli | ContinuousBernoulli:
    """The likelihood of that name.

    Raises:
        ValueError: if the name is unknown.
    """
    if name not in _NAMES:
        known = ", ".join(sorted(_NAMES))
        raise ValueError(f"likelihood={name!r} is unknown; choose one of: {known}")
    return _NAMES[name]()
