"""The base of normal families whose elements are correlated."""

from __future__ import annotations

import abc
import math

import tensorflow as tf

from tfbdl.posteriors.location_scale import LocationScale
from tfbdl.priors.base import HALF_LOG_2PI


class CorrelatedNormal(LocationScale):
    """q(w) = N(mu, Sigma) over all D elements of a weight together.

    A family says what Sigma is. Elements are counted in row-major order. The closed form of the KL
    is that of priors whose elements are independent and have an expected log density; against
    priors over whole matrices it is estimated.
    """

    @abc.abstractmethod
    def covariance(self) -> tf.Tensor:
        """Sigma, shape (D, D)."""

    @abc.abstractmethod
    def half_log_det(self) -> tf.Tensor:
        """Half the log determinant of Sigma."""

    @abc.abstractmethod
    def squared_distance(self, deviation: tf.Tensor) -> tf.Tensor:
        """deviation^T Sigma^-1 deviation, for w - mu in the shape of w."""

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        """Log density of all elements together, in nats, shape ()."""
        return self.log_prob_at(self.squared_distance(w - self.mean))

    def log_prob_at(self, squared_distance: tf.Tensor) -> tf.Tensor:
        """Log density in nats where `squared_distance` of w - mu is this."""
        return -0.5 * squared_distance - self.half_log_det() - self.size * HALF_LOG_2PI

    def exact_kl(self) -> tf.Tensor | None:
        """Entropy and E[log p(w)]; the latter depends on the marginals alone."""
        expected = self.prior.expected_log_prob(self.mean, self.stddev)
        if expected is None:
            return None
        entropy = self.half_log_det() + self.size * (0.5 + HALF_LOG_2PI)
        return -entropy - tf.reduce_sum(expected)

    @property
    def size(self) -> int:
        """D, the number of elements."""
        return math.prod(self.mu.shape)
