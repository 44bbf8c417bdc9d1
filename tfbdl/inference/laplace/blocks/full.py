"""A block with all its correlations.

Where J of each example is a product a x g with fewer outputs than directions (`Part.is_thin`), as
that of a last layer, K times fewer products give its squares than J written out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfbdl.inference.laplace.blocks.base import Block, Inputs, Tensors, rows
from tfbdl.inference.laplace.covariance import Dense, InBasis
from tfbdl.inference.laplace.information import Information
from tfbdl.inference.laplace.parts import Factored, Part

ROUNDING = 1e-13
"""The error of a sum over examples in float64, for each weight, relative to the eigenvalues."""


class FullBlock(Block):
    """H as a matrix, shape (p, p).

    Args:
        sizes: the numbers of elements of the weight tensors, of one or more.
    """

    fields = ("h",)

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__(sum(sizes))
        self._sizes = list(sizes)

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

    def statistics_at(
        self, inputs: Inputs, information: Information, weights: tf.Tensor
    ) -> Tensors:
        return (hessian_at(inputs, information, self._sizes),)

    def finish(self, total: Tensors) -> None:
        (self.h,) = total

    def quadratic(self, d: tf.Tensor) -> tf.Tensor:
        return tf.tensordot(d, tf.linalg.matvec(tf.cast(self.h, d.dtype), d), 1)

    def log_det(self, delta: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
        return 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(self._factor(delta, c))))

    def factors(self, delta: tf.Tensor, c: tf.Tensor) -> Tensors:
        """L^-1, for c H + diag(delta) = L L^T."""
        lower = self._factor(delta, c)
        return (tf.linalg.triangular_solve(lower, tf.eye(lower.shape[0], dtype=tf.float64)),)

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
            white = tf.reshape(white, [-1, j.shape[1], inverse.shape[0]])
        return tf.matmul(white, white, transpose_b=True)

    def variances_of_weights(self, factors: Tensors) -> tf.Tensor:
        return tf.reduce_sum(factors[0] ** 2, axis=0)

    def covariance_at(self, inputs: Inputs, factors: Tensors) -> Dense | InBasis:
        """S_n = W_n^T W_n with W_n = L^-1 (a_n x I); of a bias alone the same for all n."""
        columns = tf.split(factors[0], self._sizes, axis=1)
        own = [(a, w) for a, w in zip(inputs, columns, strict=True) if a is not None]
        if len(own) == 1 and own[0][0].shape[1] == 1:
            (a, w), *_ = own
            return InBasis(tf.transpose(w), tf.repeat(a**2, w.shape[0], axis=1))
        white = tf.add_n([_times_inputs(a, w) for a, w in own])
        return Dense(tf.matmul(white, white, transpose_a=True))

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
        size = len(eigenvalues)
        rounding = ROUNDING * size * eigenvalues[-1]
        if eigenvalues[0] < -rounding:
            raise ValueError(
                f"the posterior's precision has the eigenvalue {eigenvalues[0]:.3g}: the weights "
                "are at no mode; train on, raise prior_precision, or use curvature='ggn'"
            )
        return tf.linalg.cholesky(precision + 2.0 * rounding * tf.eye(size, dtype=tf.float64))


def hessian_at(inputs: Inputs, information: Information, sizes: Sequence[int]) -> tf.Tensor:
    """Sum_n (a_n x I) Lambda_n (a_n x I)^T over all inputs, shape (p, p)."""

    def product(p: int, q: int) -> tf.Tensor:
        a, b = inputs[p], inputs[q]
        if a is None or b is None:
            return tf.zeros([sizes[p], sizes[q]], tf.float64)
        return information.around(a, b)

    places = range(len(sizes))
    return tf.concat([tf.concat([product(p, q) for q in places], axis=1) for p in places], axis=0)


def _times_inputs(a: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """W (a_n x I), shape (R, P, O), for W of shape (P, I O)."""
    number, inputs = w.shape[0], a.shape[1]
    turned = tf.transpose(tf.reshape(w, [number, inputs, -1]), [1, 0, 2])  # (I, P, O)
    return tf.reshape(tf.matmul(a, tf.reshape(turned, [inputs, -1])), [-1, number, turned.shape[2]])


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
