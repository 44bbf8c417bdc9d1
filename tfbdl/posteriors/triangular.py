"""Lower triangular matrices with a positive diagonal: the Cholesky factors of covariances."""

from __future__ import annotations

import keras
import tensorflow as tf

from tfbdl.elementary import log_of_softplus, norm, softplus
from tfbdl.inherited_arguments import LayerArguments, Unpack
from tfbdl.probability import tfp

LARGEST = 10_000


class Triangular(keras.layers.Layer):
    """An (n, n) factor: softplus(rho) on the diagonal, n (n - 1) / 2 numbers below, from zero.

    Args:
        n: rows of the factor.
        rho_initializer: the start of rho.
        of: the name of the factor's owner, and its axis, for the message.
        number: K, of factors; by default one, without an axis of its own.

    Raises:
        ValueError: if n exceeds `LARGEST`, at which a factor takes 0.4 GB in float32 and training
            several times that.
    """

    def __init__(
        self,
        n: int,
        rho_initializer: keras.initializers.Initializer,
        of: str,
        number: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(**kwargs)
        if n > LARGEST:
            numbers = n * (n + 1) // 2
            raise ValueError(
                f"{of} needs a factor of {numbers:,} numbers ({4e-9 * numbers:,.1f} GB in float32) "
                f"and stops at {LARGEST:,} rows; use posterior='low_rank' or 'mean_field'"
            )
        several = () if number is None else (number,)
        self.rho = self.add_weight(
            shape=(*several, n), initializer=rho_initializer, autocast=False, name="rho"
        )
        self.below: keras.Variable | None = None
        if n > 1:
            self.below = self.add_weight(
                shape=(*several, n * (n - 1) // 2),
                initializer="zeros",
                autocast=False,
                name="below",
            )
        self.built = True

    def matrix(self) -> tf.Tensor:
        """The factor as it is now, shape (n, n); of several, (K, n, n)."""
        diagonal = tf.linalg.diag(self.diagonal)
        if self.below is None:
            return diagonal
        below = tfp.math.fill_triangular(tf.convert_to_tensor(self.below))
        outside = [[0, 0]] * (len(below.shape) - 2)
        return diagonal + tf.pad(below, [*outside, [1, 0], [0, 1]])

    @property
    def diagonal(self) -> tf.Tensor:
        """softplus(rho), shape (n,)."""
        return softplus(tf.convert_to_tensor(self.rho))

    def gram(self) -> tf.Tensor:
        """The factor times its transpose, shape (n, n)."""
        factor = self.matrix()
        return tf.matmul(factor, factor, transpose_b=True)

    def row_norms(self) -> tf.Tensor:
        """Square roots of the diagonal of `gram`, shape (n,)."""
        return norm(self.matrix())

    def log_det(self) -> tf.Tensor:
        """Log determinant of the factor; of several, the sum."""
        return tf.reduce_sum(log_of_softplus(tf.convert_to_tensor(self.rho), self.diagonal))

    def solve(self, right: tf.Tensor) -> tf.Tensor:
        """The inverse of the factor times `right`, shape (n, m)."""
        return tf.linalg.triangular_solve(self.matrix(), right, lower=True)
