"""The point mass: a weight that is estimated, as in a deterministic layer."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from tfbdl.posteriors.base import Posterior
from tfbdl.priors import LogUniform, Prior


@keras.saving.register_keras_serializable(package="tfbdl.posteriors")
class PointMass(Posterior):
    """q(w) = delta(w - mu). Its KL is -log p(mu) up to a constant, so training finds the MAP.

    Args:
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if the prior is without bound at 0, where the MAP then is, whatever the data.
    """

    independent_normal = True
    symmetric = True

    def check_prior(self, prior: Prior) -> None:
        super().check_prior(prior)
        if isinstance(prior, LogUniform):
            raise ValueError(
                f"prior={type(prior).__name__} is infinite at 0, where posterior="
                f"{type(self).__name__} would end; use 'normal', or 'flat' for no pull"
            )

    def build(self, shape: tuple[int, ...]) -> None:
        self.mu = self.add_parameter("mu", shape, self.initializer)
        self.built = True

    @property
    def mean(self) -> tf.Tensor:
        return tf.convert_to_tensor(self.mu)

    @property
    def stddev(self) -> tf.Tensor:
        return tf.zeros_like(self.mean)

    def log_prob(self, w: tf.Tensor) -> tf.Tensor:
        return tf.zeros_like(w)

    def remove(self, where: np.ndarray) -> None:
        self.mu.assign(np.where(where, 0.0, self.mu))

    def sample(self, key: tf.Tensor) -> tf.Tensor:
        return self.mean

    def exact_kl(self) -> tf.Tensor:
        return -tf.reduce_sum(self.prior.log_prob(self.mean))
