"""The prior in the place of the posterior: what a network says before it has seen data."""

from __future__ import annotations

import keras
import tensorflow as tf

from tfbdl.posteriors.base import Posterior
from tfbdl.priors import Prior


@keras.saving.register_keras_serializable(package="tfbdl.posteriors")
class PriorItself(Posterior):
    """q(w) = p(w), with nothing to train but the prior's own hyper-parameters, and a KL of 0.

    `tfbdl.predict` then gives the prior predictive distribution.
    """

    def check_prior(self, prior: Prior) -> None:
        """Every prior goes."""

    def build(self, shape: tuple[int, ...]) -> None:
        self.shape = tuple(shape)
        self.built = True

    @property
    def mean(self) -> tf.Tensor:
        return tf.zeros(self.shape)

    @property
    def stddev(self) -> tf.Tensor:
        """Not known: NaN."""
        return tf.fill(self.shape, float("nan"))

    def sample(self, key: tf.Tensor) -> tf.Tensor:
        return self.prior.sample(key, self.shape)

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        return self.prior.log_prob(w)

    def exact_kl(self) -> tf.Tensor:
        return tf.zeros(())
