"""A block of low rank: the directions in weight space with the largest curvature."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfbdl.inference.laplace.blocks.base import Block, Inputs, Tensors, rows, rows_at
from tfbdl.inference.laplace.blocks.full import hessian_at
from tfbdl.inference.laplace.covariance import Dense
from tfbdl.inference.laplace.information import Information
from tfbdl.inference.laplace.parts import Part


class LowRankBlock(Block):
    """H = V V^T with V of shape (p, k), by one pass of an incremental singular value decomposition.

    Each batch's rows of J are set beside V, and the k largest singular values kept (Brand 2002);
    where the rows are more than p, H of the batch comes in their place. It is exact where H has no
    higher rank than k (it has at most N K), and else never larger than H, so that the posterior's
    variances are never too small.

    Args:
        sizes: the numbers of elements of the weight tensors, p together.
        rank: k.
    """

    fields = ("v",)

    def __init__(self, sizes: Sequence[int], rank: int) -> None:
        super().__init__(sum(sizes))
        self._sizes, self.rank = list(sizes), rank

    @property
    def bytes(self) -> int:
        """V, and what it becomes with a prior, in float64."""
        return 2 * 8 * self.size * self.rank

    def statistics(self, parts: Sequence[Part], weights: tf.Tensor) -> Tensors:
        j = rows([part.weighted(weights) for part in parts], tf.float64)
        return self._of_rows(tf.reshape(j, [-1, self.size]))

    def statistics_at(
        self, inputs: Inputs, information: Information, weights: tf.Tensor
    ) -> Tensors:
        root = information.root()  # (R, O, K)
        if root.shape[0] * root.shape[2] >= self.size:
            return (hessian_at(inputs, information, self._sizes),)
        return self._of_rows(rows_at(inputs, information, self._sizes))

    def add(self, total: Tensors | None, statistics: Tensors) -> Tensors:
        """The k directions of both; square statistics are H itself."""
        if statistics[0].shape[0] == statistics[0].shape[1]:
            return self._add_hessian(total, statistics[0])
        beside = statistics[0] if total is None else tf.concat([total[0], statistics[0]], axis=1)
        if beside.shape[1] <= self.rank:
            return (beside,)
        _, vectors = np.linalg.eigh(tf.matmul(beside, beside, transpose_a=True))
        return (tf.matmul(beside, vectors[:, -self.rank :]),)

    def finish(self, total: Tensors) -> None:
        (self.v,) = total

    def quadratic(self, d: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.linalg.matvec(tf.cast(self.v, d.dtype), d, transpose_a=True) ** 2)

    def log_det(self, delta: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
        lower = tf.linalg.cholesky(self._inner(tf.sqrt(c / delta)[:, tf.newaxis] * self.v))
        of_data = 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(lower)))
        return tf.reduce_sum(tf.math.log(delta)) + of_data

    def factors(self, delta: tf.Tensor, c: tf.Tensor) -> Tensors:
        """The prior's scales, and M and u with diag(u) = I + M^T M, M of orthogonal columns.

        With D = diag(delta): c H + D = D^1/2 (I + M M^T) D^1/2.
        """
        scales = 1.0 / tf.sqrt(delta)
        z = tf.sqrt(c) * scales[:, tf.newaxis] * self.v
        u, vectors = np.linalg.eigh(self._inner(z))
        return scales, tf.matmul(z, vectors), tf.constant(u)

    def variance(self, parts: Sequence[Part], factors: Tensors) -> tf.Tensor:
        """J D^-1/2 (I - M diag(1 / u) M^T) D^-1/2 J^T."""
        scales, m, u = factors
        j = rows(parts, scales.dtype) * scales
        known = tf.einsum("bkp,pr->bkr", j, m / tf.sqrt(u))
        return tf.matmul(j, j, transpose_b=True) - tf.matmul(known, known, transpose_b=True)

    def variances_of_weights(self, factors: Tensors) -> tf.Tensor:
        scales, m, u = factors
        return scales**2 * (1.0 - tf.reduce_sum(m**2 / u, axis=1))

    def covariance_at(self, inputs: Inputs, factors: Tensors) -> Dense:
        scales, m, u = factors
        of_prior, known = [], []
        columns = zip(
            inputs,
            tf.split(scales, self._sizes),
            tf.split(scales[:, tf.newaxis] * m / tf.sqrt(u), self._sizes),
            strict=True,
        )
        for a, scale, directions in columns:
            if a is not None:
                of_prior.append(tf.matmul(a**2, tf.reshape(scale**2, [a.shape[1], -1])))
                known.append(tf.matmul(a, tf.reshape(directions, [a.shape[1], -1])))
        root = tf.reshape(tf.add_n(known), [known[0].shape[0], -1, m.shape[1]])  # (R, O, k)
        of_data = tf.matmul(root, root, transpose_b=True)
        return Dense(tf.linalg.diag(tf.add_n(of_prior)) - of_data)

    def sample(self, noise: tf.Tensor, factors: Tensors) -> tf.Tensor:
        """D^-1/2 (I + M M^T)^-1/2 noise; that root is I - M diag(1 / (u + sqrt u)) M^T."""
        scales, m, u = factors
        shrunk = tf.matmul(tf.matmul(noise, m) / (u + tf.sqrt(u)), m, transpose_b=True)
        return (noise - shrunk) * scales

    def _of_rows(self, j: tf.Tensor) -> Tensors:
        """J^T, or H = J^T J where that is smaller."""
        if j.shape[0] < self.size:
            return (tf.transpose(j),)
        return (tf.matmul(j, j, transpose_a=True),)

    def _add_hessian(self, total: Tensors | None, h: tf.Tensor) -> Tensors:
        if total is not None:
            h = h + tf.matmul(total[0], total[0], transpose_b=True)
        values, vectors = np.linalg.eigh(h)
        values, vectors = np.maximum(values[-self.rank :], 0.0), vectors[:, -self.rank :]
        return (tf.constant(vectors * np.sqrt(values)),)

    @staticmethod
    def _inner(z: tf.Tensor) -> tf.Tensor:
        """I + Z^T Z, shape (k, k)."""
        return tf.matmul(z, z, transpose_a=True) + tf.eye(z.shape[1], dtype=z.dtype)
