"""The prior in the place of the posterior: predictions before any data."""

from __future__ import annotations

import keras
import tensorflow as tf

from tfbdl.posteriors.base import Posterior
from tfbdl.priors import Flat, LogUniform, Prior


@keras.saving.register_keras_serializable(package="tfbdl.posteriors")
class PriorItself(Posterior):
    """q(w) = p(w), with nothing to train but the prior's own hyper-parameters, and a KL of 0.

    `tfbdl.predict` then gives the prior predictive distribution.

    Args:
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if the prior is improper.
    """

    of_hyperposterior = False  # samples have the hyper-parameters of the prior

    def check_prior(self, prior: Prior) -> None:
        if isinstance(prior, (Flat, LogUniform)):
            raise ValueError(
                f"prior={type(prior).__name__} is improper: nothing can be drawn from it; use a "
                "prior with a density for posterior='prior'"
            )

    def build(self, shape: tuple[int, ...]) -> None:
        self.shape = tuple(shape)
        self.built = True

    @property
    def mean(self) -> tf.Tensor:
        return tf.fill(self.shape, tf.constant(self.prior.mean, self.variable_dtype))

    @property
    def stddev(self) -> tf.Tensor:
        """NaN, as it is not known."""
        return tf.fill(self.shape, tf.constant(float("nan"), self.variable_dtype))

    def sample(self, key: tf.Tensor) -> tf.Tensor:
        return tf.cast(self.prior.sample(key, self.shape), self.variable_dtype)

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        return self.prior.log_prob(w)

    def exact_kl(self) -> tf.Tensor:
        return tf.zeros((), self.variable_dtype)
