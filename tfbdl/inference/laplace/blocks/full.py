"""A block with all its correlations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfbdl.inference.laplace.blocks.base import Block, Tensors, rows
from tfbdl.inference.laplace.parts import Part


class FullBlock(Block):
    """H as a matrix, shape (p, p). The weights may be several tensors."""

    @property
    def bytes(self) -> int:
        """H and its factor, in float64."""
        return 2 * 8 * self.size**2

    def statistics(self, parts: Sequence[Part], mask: tf.Tensor) -> Tensors:
        j = rows([part.masked(mask) for part in parts], tf.float64)
        j = tf.reshape(j, [-1, self.size])
        return (tf.matmul(j, j, transpose_a=True),)

    def finish(self, total: Tensors) -> None:
        (self.h,) = total

    def log_det(self, delta: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
        return 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(self._factor(delta, c))))

    def factors(self, delta: tf.Tensor, c: tf.Tensor) -> Tensors:
        return (self._factor(delta, c),)

    def variance(self, parts: Sequence[Part], factors: Tensors) -> tf.Tensor:
        (lower,) = factors
        j = rows(parts, lower.dtype)
        columns = tf.transpose(tf.reshape(j, [-1, self.size]))
        white = tf.linalg.triangular_solve(lower, columns)
        white = tf.reshape(tf.transpose(white), [-1, *j.shape[1:]])
        return tf.matmul(white, white, transpose_b=True)

    def sample(self, noise: tf.Tensor, factors: Tensors) -> tf.Tensor:
        columns = tf.linalg.triangular_solve(factors[0], tf.transpose(noise), adjoint=True)
        return tf.transpose(columns)

    def _factor(self, delta: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
        """The Cholesky factor of c H + diag(delta); of the nearest matrix that has one in float64.

        Raises:
            ValueError: if that is not positive definite, which only an exact Hessian can fail.
        """
        precision = c * self.h + tf.linalg.diag(delta)
        lower = _cholesky(precision)
        if lower is not None:
            return lower
        eigenvalues = np.linalg.eigvalsh(precision)
        rounding = self.size * np.finfo(np.float64).eps * eigenvalues[-1]
        if eigenvalues[0] < -rounding:
            raise ValueError(
                f"the posterior's precision has the eigenvalue {eigenvalues[0]:.3g}: the weights "
                "are at no mode; train on, raise prior_precision, or use curvature='ggn'"
            )
        return tf.linalg.cholesky(precision + rounding * tf.eye(self.size, dtype=tf.float64))


def _cholesky(matrix: tf.Tensor) -> tf.Tensor | None:
    """None where there is no factor."""
    try:
        lower = tf.linalg.cholesky(matrix)
    except tf.errors.InvalidArgumentError:
        return None
    return lower if tf.reduce_all(tf.math.is_finite(lower)) else None
