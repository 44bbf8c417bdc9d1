"""The posterior of z given x, as an encoder says it, and its KL to N(0, I)."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class Latent(NamedTuple):
    """q(z | x): mean and standard deviation, each of shape (B, latent_dim)."""

    mu: tf.Tensor
    sigma: tf.Tensor

    @classmethod
    def of(cls, outputs: tf.Tensor) -> Latent:
        """Law of mu and rho side by side, shape (B, 2 latent_dim), with sigma = softplus(rho)."""
        mu, rho = tf.split(tf.cast(outputs, tf.float32), 2, axis=-1)
        return cls(mu, tf.math.softplus(rho))


def kl_to_standard_normal(q: Latent) -> tf.Tensor:
    """KL(q || N(0, I)) of each example, shape (B,): 1/2 sum mu^2 + sigma^2 - log sigma^2 - 1."""
    terms = tf.square(q.mu) + tf.square(q.sigma) - 2.0 * tf.math.log(q.sigma) - 1.0
    return 0.5 * tf.reduce_sum(terms, axis=-1)
