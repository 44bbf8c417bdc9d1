"""The point mass: a weight that is estimated, as in a deterministic layer."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from tfbdl.posteriors.base import Posterior


@keras.saving.register_keras_serializable(package="tfbdl.posteriors")
class PointMass(Posterior):
    """q(w) = delta(w - mu). Its KL is -log p(mu) up to a constant, so training finds the MAP."""

    independent_normal = True
    symmetric = True

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
