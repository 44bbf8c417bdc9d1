"""Posteriors that are drawn through the inverse of their distribution function."""

from __future__ import annotations

import abc

import tensorflow as tf

from tfbdl import random
from tfbdl.posteriors.location_scale import IndependentScales
from tfbdl.priors import Normal


class InverseCDF(IndependentScales):
    """w = mu + sigma Q(u) for each weight on its own, u uniform on (0, 1), sigma = softplus(rho).

    A family gives Q, the inverse distribution function of its member with mean 0 and variance 1,
    and the log density of that member; mu and sigma are then the mean and the standard deviation
    of w. Every continuous distribution with two moments can be a family.

    Args:
        rho_initializer: the start of rho. The default, uniform in [-3, -2] as in the slides, is a
            sigma between 0.05 and 0.13.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Attributes:
        standard_entropy: entropy of the member with variance 1, in nats. Where it is given, the KL
            from a normal prior, which depends on the moments alone, is closed.
    """

    standard_entropy: float | None = None

    @abc.abstractmethod
    def quantile(self, below: tf.Tensor, above: tf.Tensor) -> tf.Tensor:
        """Q(u), elementwise, differentiable where parameters of its own enter.

        It is asked for by u = below and 1 - u = above, each of which is exact where it is small and
        at least 2^-33, so that both tails can be computed from the lesser.
        """

    @abc.abstractmethod
    def standard_log_prob(self, z: tf.Tensor) -> tf.Tensor:
        """Log density of Q(u) at z, elementwise, in nats."""

    def sample(self, key: tf.Tensor) -> tf.Tensor:
        tails = random.tails(key, self.mu.shape, self.mu.dtype)
        return self.mean + self.stddev * tf.cast(self.quantile(*tails), self.mu.dtype)

    def sample_and_log_prob(self, key: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        tails = random.tails(key, self.mu.shape, self.mu.dtype)
        z = tf.cast(self.quantile(*tails), self.mu.dtype)
        return self.mean + self.stddev * z, self.standard_log_prob(z) - self.log_stddev

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        return self.standard_log_prob((w - self.mean) / self.stddev) - self.log_stddev

    def exact_kl(self) -> tf.Tensor | None:
        if self.standard_entropy is None or not isinstance(self.prior, Normal):
            return None
        return self.kl_given(self.prior.expected_log_prob(self.mean, self.stddev))

    def kl_given(self, expected: tf.Tensor) -> tf.Tensor:
        """The KL in nats, from E_q[log p(w)] of each element."""
        return -tf.reduce_sum(self.log_stddev + self.standard_entropy + expected)
