"""The normal posterior with a full covariance over one weight tensor."""

from __future__ import annotations

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.posteriors.correlated import CorrelatedNormal
from tfbdl.posteriors.triangular import Triangular


@keras.saving.register_keras_serializable(package="tfbdl.posteriors")
class FullCovarianceNormal(CorrelatedNormal):
    """w = mu + L e over all D elements of one weight, e standard normal; Cov(w) = L L^T.

    Kernel and bias are independent of each other. L is lower triangular with diagonal
    softplus(rho), and starts diagonal, where q is mean field. It has D (D + 1) / 2 numbers, and a
    sample costs D^2: this is for small layers, such as the last one.

    Args:
        rho_initializer: the start of rho. The default, uniform in [-3, -2] as in the slides, is a
            sigma between 0.05 and 0.13.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: when it is built over more than 10,000 weights.
    """

    def build(self, shape: tuple[int, ...]) -> None:
        super().build(shape)
        of = f"posterior={type(self).__name__} over {self.size:,} weights"
        self.factor = Triangular(
            self.size, self.rho_initializer, of, name="factor", dtype=self.dtype_policy
        )

    @property
    def stddev(self) -> tf.Tensor:
        return tf.reshape(self.factor.row_norms(), self.mu.shape)

    def covariance(self) -> tf.Tensor:
        return self.factor.gram()

    def sample(self, key: tf.Tensor) -> tf.Tensor:
        return self.sample_and_log_prob(key)[0]

    def sample_and_log_prob(self, key: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        e = random.normal(key, (self.size,), self.mu.dtype)
        w = self.mean + tf.reshape(tf.linalg.matvec(self.factor.matrix(), e), self.mu.shape)
        return w, self.log_prob_at(tf.reduce_sum(tf.square(e)))

    def product_variance(self, x: tf.Tensor) -> tf.Tensor:
        factor = tf.reshape(self.factor.matrix(), (*self.mu.shape, self.size))
        return tf.reduce_sum(tf.square(tf.einsum("bi,iur->bur", x, factor)), axis=-1)

    def half_log_det(self) -> tf.Tensor:
        return self.factor.log_det()

    def squared_distance(self, deviation: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.square(self.factor.solve(tf.reshape(deviation, (self.size, 1)))))
