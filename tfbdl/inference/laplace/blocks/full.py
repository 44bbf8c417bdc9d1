"""A block with all its correlations.

Where J of each example is a product a x g with fewer outputs than directions (`Part.is_thin`), as
that of a last layer, K times fewer products give its squares than J written out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfbdl.inference.laplace.blocks.base import Block, Tensors, rows
from tfbdl.inference.laplace.parts import Factored, Part

ROUNDING = 1e-13
"""The error of a sum over examples in float64, for each weight, relative to the eigenvalues."""


class FullBlock(Block):
    """H as a matrix, shape (p, p). The weights may be several tensors."""

    fields = ("h",)

    @property
    def bytes(self) -> int:
        """H and the inverse of its factor, in float64."""
        return 2 * 8 * self.size**2

    def statistics(self, parts: Sequence[Part], weights: tf.Tensor) -> Tensors:
        counted = [part.weighted(weights).cast(tf.float64) for part in parts]
        thin = _thin(counted)
        if thin:
            return (tf.concat([tf.concat([_product(p, q) for q in thin], 1) for p in thin], 0),)
        j = tf.reshape(rows(counted, tf.float64), [-1, self.size])
        return (tf.matmul(j, j, transpose_a=True),)

    def finish(self, total: Tensors) -> None:
        (self.h,) = total

    def log_det(self, delta: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
        return 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(self._factor(delta, c))))

    def factors(self, delta: tf.Tensor, c: tf.Tensor) -> Tensors:
        """L^-1, for c H + diag(delta) = L L^T."""
        identity = tf.eye(self.size, dtype=tf.float64)
        return (tf.linalg.triangular_solve(self._factor(delta, c), identity),)

    def variance(self, parts: Sequence[Part], factors: Tensors) -> tf.Tensor:
        (inverse,) = factors
        thin = _thin([part.cast(inverse.dtype) for part in parts])
        if thin:
            columns = tf.split(inverse, [p.a.shape[2] * p.g.shape[3] for p in thin], axis=1)
            pairs = zip(thin, columns, strict=True)
            white = tf.add_n([_times(part, matrix) for part, matrix in pairs])
        else:
            j = rows(parts, inverse.dtype)
            white = tf.matmul(tf.reshape(j, [-1, self.size]), inverse, transpose_b=True)
            white = tf.reshape(white, j.shape)
        return tf.matmul(white, white, transpose_b=True)

    def sample(self, noise: tf.Tensor, factors: Tensors) -> tf.Tensor:
        return tf.matmul(noise, factors[0])

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
        rounding = ROUNDING * self.size * eigenvalues[-1]
        if eigenvalues[0] < -rounding:
            raise ValueError(
                f"the posterior's precision has the eigenvalue {eigenvalues[0]:.3g}: the weights "
                "are at no mode; train on, raise prior_precision, or use curvature='ggn'"
            )
        return tf.linalg.cholesky(precision + 2.0 * rounding * tf.eye(self.size, dtype=tf.float64))


def _thin(parts: Sequence[Part]) -> list[Factored]:
    """All parts if all are thin, else none."""
    factored = [part for part in parts if isinstance(part, Factored) and part.is_thin]
    return factored if len(factored) == len(parts) else []


def _product(p: Factored, q: Factored) -> tf.Tensor:
    """Sum_b J_p^T J_q, shape (I_p O_p, I_q O_q)."""
    g = tf.matmul(p.g[:, :, 0], q.g[:, :, 0], transpose_a=True)  # (B, O_p, O_q)
    ag = p.a[:, 0, :, tf.newaxis, tf.newaxis] * g[:, tf.newaxis]  # (B, I_p, O_p, O_q)
    rows_p, of_q = ag.shape[1] * ag.shape[2], ag.shape[3]
    h = tf.matmul(tf.reshape(ag, [-1, rows_p * of_q]), q.a[:, 0], transpose_a=True)
    h = tf.transpose(tf.reshape(h, [rows_p, of_q, -1]), [0, 2, 1])
    return tf.reshape(h, [rows_p, -1])


def _times(part: Factored, matrix: tf.Tensor) -> tf.Tensor:
    """J W^T of each example, shape (B, K, P), for W of shape (P, I O)."""
    inputs, outputs = part.a.shape[2], part.g.shape[3]
    w = tf.transpose(tf.reshape(matrix, [-1, inputs, outputs]), [1, 0, 2])  # (I, P, O)
    aw = tf.matmul(part.a[:, 0], tf.reshape(w, [inputs, -1]))
    aw = tf.reshape(aw, [-1, matrix.shape[0], outputs])  # (B, P, O)
    return tf.matmul(part.g[:, :, 0], aw, transpose_b=True)


def _cholesky(matrix: tf.Tensor) -> tf.Tensor | None:
    """None where there is no factor."""
    try:
        lower = tf.linalg.cholesky(matrix)
    except tf.errors.InvalidArgumentError:
        return None
    return lower if tf.reduce_all(tf.math.is_finite(lower)) else None
