"""The normal posterior with a covariance for the weights into each output unit."""

from __future__ import annotations

import math

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.posteriors.correlated import CorrelatedNormal
from tfbdl.posteriors.triangular import Triangular


@keras.saving.register_keras_serializable(package="tfbdl.posteriors")
class PerOutputNormal(CorrelatedNormal):
    """w_u = mu_u + L_u e_u for the n weights into output unit u, e_u standard normal.

    Outputs are independent, as in the last layer of Harrison et al. (2024), whose "dense"
    covariance it is: the covariance of Bayesian linear regression, with one L_u for each unit. L_u
    is lower triangular with diagonal softplus(rho), and starts diagonal, where q is mean field. It
    has n (n + 1) / 2 numbers a unit. A bias is one weight a unit, and so has independent elements.

    Args:
        rho_initializer: the start of rho. The default, uniform in [-3, -2] as in the slides, is a
            sigma between 0.05 and 0.13.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: when it is built over more than 10,000 weights a unit.
    """

    def build(self, shape: tuple[int, ...]) -> None:
        super().build(shape)
        self.matrix_shape = (math.prod(shape[:-1]), shape[-1])
        n, units = self.matrix_shape
        of = f"posterior={type(self).__name__} over {n:,} weights a unit"
        self.factors = Triangular(
            n, self.rho_initializer, of, units, name="factors", dtype=self.dtype_policy
        )

    @property
    def stddev(self) -> tf.Tensor:
        return tf.reshape(tf.transpose(self.factors.row_norms()), self.mu.shape)

    def covariance(self) -> tf.Tensor:
        n, units = self.matrix_shape
        blocks = tf.einsum("uij,uv->iujv", self.factors.gram(), tf.eye(units, dtype=self.mu.dtype))
        return tf.reshape(blocks, (n * units, n * units))

    def sample(self, key: tf.Tensor) -> tf.Tensor:
        return self.sample_and_log_prob(key)[0]

    def sample_and_log_prob(self, key: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        e = random.normal(key, self.matrix_shape, self.mu.dtype)
        deviation = tf.einsum("uij,ju->iu", self.factors.matrix(), e)
        w = self.mean + tf.reshape(deviation, self.mu.shape)
        return w, self.log_prob_at(tf.reduce_sum(tf.square(e)))

    def product_variance(self, x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.square(tf.einsum("bi,uij->buj", x, self.factors.matrix())), axis=-1)

    def half_log_det(self) -> tf.Tensor:
        return self.factors.log_det()

    def squared_distance(self, deviation: tf.Tensor) -> tf.Tensor:
        by_unit = tf.transpose(tf.reshape(deviation, self.matrix_shape))[..., tf.newaxis]
        return tf.reduce_sum(tf.square(self.factors.solve(by_unit)))
