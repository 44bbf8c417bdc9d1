"""A block of low rank: the directions in weight space with the largest curvature."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfbdl.inference.laplace.blocks.base import Block, Tensors, rows
from tfbdl.inference.laplace.parts import Part


class LowRankBlock(Block):
    """H = V V^T with V of shape (p, k), by one pass of an incremental singular value decomposition.

    Each batch's rows of J are set beside V, and the k largest singular values kept (Brand 2002).
    It is exact where H has no higher rank than k (it has at most N K), and else never larger than
    H, so that the posterior's variances are never too small.

    Args:
        size: p.
        rank: k.
    """

    fields = ("v",)

    def __init__(self, size: int, rank: int) -> None:
        super().__init__(size)
        self.rank = rank

    @property
    def bytes(self) -> int:
        """V, and what it becomes with a prior, in float64."""
        return 2 * 8 * self.size * self.rank

    def statistics(self, parts: Sequence[Part], weights: tf.Tensor) -> Tensors:
        j = rows([part.weighted(weights) for part in parts], tf.float64)
        return (tf.transpose(tf.reshape(j, [-1, self.size])),)

    def add(self, total: Tensors | None, statistics: Tensors) -> Tensors:
        beside = statistics[0] if total is None else tf.concat([total[0], statistics[0]], axis=1)
        if beside.shape[1] <= self.rank:
            return (beside,)
        _, vectors = np.linalg.eigh(tf.matmul(beside, beside, transpose_a=True))
        return (tf.matmul(beside, vectors[:, -self.rank :]),)

    def finish(self, total: Tensors) -> None:
        (self.v,) = total

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

    def sample(self, noise: tf.Tensor, factors: Tensors) -> tf.Tensor:
        """D^-1/2 (I + M M^T)^-1/2 noise; that root is I - M diag(1 / (u + sqrt u)) M^T."""
        scales, m, u = factors
        shrunk = tf.matmul(tf.matmul(noise, m) / (u + tf.sqrt(u)), m, transpose_b=True)
        return (noise - shrunk) * scales

    @staticmethod
    def _inner(z: tf.Tensor) -> tf.Tensor:
        """I + Z^T Z, shape (k, k)."""
        return tf.matmul(z, z, transpose_a=True) + tf.eye(z.shape[1], dtype=z.dtype)
