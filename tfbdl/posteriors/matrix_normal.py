"""The matrix normal posterior: a covariance of rows and one of columns."""

from __future__ import annotations

import math

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.posteriors.correlated import CorrelatedNormal
from tfbdl.posteriors.triangular import Triangular

_SOFTPLUS_IS_1 = math.log(math.expm1(1.0))


@keras.saving.register_keras_serializable(package="tfbdl.posteriors")
class MatrixNormal(CorrelatedNormal):
    """W = M + A E B^T with E standard normal; Cov(W_ij, W_kl) = (A A^T)_ik (B B^T)_jl.

    The weight is seen as a matrix with a column for each output unit: the rows of a convolution's
    kernel are its positions and input channels, and a bias is one row. A and B are lower
    triangular with diagonals softplus(rho), known up to a factor that one may take from the
    other. A starts at the identity and B diagonal, where q is mean field with a sigma for each
    column.

    Louizos and Welling 2016, "Structured and efficient variational deep learning with matrix
    Gaussian posteriors", take both covariances diagonal and draw outputs, helped by pseudo-data;
    here both are full, and weights are drawn.

    Args:
        rho_initializer: where rho of B starts. The default, uniform in [-3, -2] as in the slides,
            is a sigma between 0.05 and 0.13.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: when it is built over a weight of more than 10,000 rows or columns.
    """

    def build(self, shape: tuple[int, ...]) -> None:
        super().build(shape)
        self.matrix_shape = (math.prod(shape[:-1]), shape[-1])
        identity = keras.initializers.Constant(_SOFTPLUS_IS_1)
        self.row_factor = self._factor("row", self.matrix_shape[0], identity)
        self.column_factor = self._factor("column", self.matrix_shape[1], self.rho_initializer)

    def _factor(
        self, name: str, n: int, rho_initializer: keras.initializers.Initializer
    ) -> Triangular:
        of = f"posterior={type(self).__name__} over {n:,} {name}s"
        return Triangular(n, rho_initializer, of, name=f"{name}_factor", dtype=self.dtype_policy)

    @property
    def stddev(self) -> tf.Tensor:
        rows, columns = self.row_factor.row_norms(), self.column_factor.row_norms()
        return tf.reshape(rows[:, tf.newaxis] * columns, self.mu.shape)

    def covariance(self) -> tf.Tensor:
        products = tf.einsum("ik,jl->ijkl", self.row_factor.gram(), self.column_factor.gram())
        return tf.reshape(products, (self.size, self.size))

    def sample(self, key: tf.Tensor) -> tf.Tensor:
        return self.sample_and_log_prob(key)[0]

    def sample_and_log_prob(self, key: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        a, b = self.row_factor.matrix(), self.column_factor.matrix()
        e = random.normal(key, self.matrix_shape, self.mu.dtype)
        w = self.mean + tf.reshape(a @ tf.matmul(e, b, transpose_b=True), self.mu.shape)
        return w, self.log_prob_at(tf.reduce_sum(tf.square(e)))

    def product_variance(self, x: tf.Tensor) -> tf.Tensor:
        rows = tf.reduce_sum(tf.square(x @ self.row_factor.matrix()), axis=-1, keepdims=True)
        return rows * tf.square(self.column_factor.row_norms())

    def half_log_det(self) -> tf.Tensor:
        rows, columns = self.matrix_shape
        return columns * self.row_factor.log_det() + rows * self.column_factor.log_det()

    def squared_distance(self, deviation: tf.Tensor) -> tf.Tensor:
        by_rows = self.row_factor.solve(tf.reshape(deviation, self.matrix_shape))
        return tf.reduce_sum(tf.square(self.column_factor.solve(tf.transpose(by_rows))))
