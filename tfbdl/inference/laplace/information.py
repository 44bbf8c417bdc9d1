"""The Fisher information of y about outputs, position by position, in the form that it has.

A position is a part of the outputs whose y is independent of the rest: a pixel, a token, or all
that an example has. Lambda_n is the information at position n of n = 1..R, shape (O, O).
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import tensorflow as tf


class Independent(NamedTuple):
    """Lambda_n = diag(values_n), for values of shape (R, O)."""

    values: tf.Tensor

    def scaled(self, w: tf.Tensor) -> Independent:
        """The information w_n Lambda_n, for w of shape (R,), at least 0."""
        return Independent(self.values * w[:, tf.newaxis])

    def sum(self) -> tf.Tensor:
        """Sum_n Lambda_n, shape (O, O)."""
        return tf.linalg.diag(tf.reduce_sum(self.values, axis=0))

    def diagonal(self) -> tf.Tensor:
        """The diagonals, shape (R, O)."""
        return self.values

    def root(self) -> tf.Tensor:
        """R_n with R_n R_n^T = Lambda_n, shape (R, O, O)."""
        return tf.linalg.diag(tf.sqrt(self.values))

    def around(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        """Sum_n a_n b_n^T x Lambda_n, shape (I O, J O), for a of (R, I) and b of (R, J)."""
        return _with_diagonals(a, b, self.values)

    def cast(self, dtype: tf.DType) -> Independent:
        """The same in another type."""
        return Independent(tf.cast(self.values, dtype))


class OfClasses(NamedTuple):
    """Lambda_n = w_n (diag(p_n) - p_n p_n^T), for p of shape (R, O) and w of shape (R,)."""

    p: tf.Tensor
    w: tf.Tensor

    def scaled(self, w: tf.Tensor) -> OfClasses:
        """As `Independent.scaled`."""
        return OfClasses(self.p, self.w * w)

    def sum(self) -> tf.Tensor:
        """As `Independent.sum`."""
        weighted = self.p * self.w[:, tf.newaxis]
        diagonal = tf.linalg.diag(tf.reduce_sum(weighted, axis=0))
        return diagonal - tf.matmul(weighted, self.p, transpose_a=True)

    def diagonal(self) -> tf.Tensor:
        """As `Independent.diagonal`."""
        return self.w[:, tf.newaxis] * self.p * (1.0 - self.p)

    def root(self) -> tf.Tensor:
        """sqrt(w) (diag(sqrt p) - p sqrt(p)^T), shape (R, O, O)."""
        p, scale = self.p, tf.sqrt(self.p * self.w[:, tf.newaxis])
        return tf.linalg.diag(scale) - p[:, :, tf.newaxis] * scale[:, tf.newaxis]

    def around(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        """As `Independent.around`."""
        weighted = self.p * self.w[:, tf.newaxis]
        of_products = tf.matmul(_beside(a, weighted), _beside(b, self.p), transpose_a=True)
        return _with_diagonals(a, b, weighted) - of_products

    def cast(self, dtype: tf.DType) -> OfClasses:
        """As `Independent.cast`."""
        return OfClasses(tf.cast(self.p, dtype), tf.cast(self.w, dtype))


class Rooted(NamedTuple):
    """Lambda_n = R_n R_n^T, for roots of shape (R, O, K)."""

    roots: tf.Tensor

    def scaled(self, w: tf.Tensor) -> Rooted:
        """As `Independent.scaled`."""
        return Rooted(self.roots * tf.sqrt(w)[:, tf.newaxis, tf.newaxis])

    def sum(self) -> tf.Tensor:
        """As `Independent.sum`."""
        return tf.einsum("nok,npk->op", self.roots, self.roots)

    def diagonal(self) -> tf.Tensor:
        """As `Independent.diagonal`."""
        return tf.reduce_sum(self.roots**2, axis=2)

    def root(self) -> tf.Tensor:
        """As `Independent.root`, shape (R, O, K)."""
        return self.roots

    def around(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        """As `Independent.around`."""
        whole = tf.einsum("ni,nj,nok,npk->iojp", a, b, self.roots, self.roots, optimize="optimal")
        outputs = self.roots.shape[1]
        return tf.reshape(whole, [a.shape[1] * outputs, b.shape[1] * outputs])

    def cast(self, dtype: tf.DType) -> Rooted:
        """As `Independent.cast`."""
        return Rooted(tf.cast(self.roots, dtype))


Information: TypeAlias = Independent | OfClasses | Rooted


def _beside(a: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """The products a_ni values_no, shape (R, I O)."""
    products = a[:, :, tf.newaxis] * values[:, tf.newaxis]
    return tf.reshape(products, [-1, a.shape[1] * values.shape[1]])


def _with_diagonals(a: tf.Tensor, b: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Sum_n a_n b_n^T x diag(values_n), shape (I O, J O)."""
    i, j, outputs = a.shape[1], b.shape[1], values.shape[1]
    sums = tf.reshape(tf.matmul(_beside(a, values), b, transpose_a=True), [i, outputs, j])
    whole = tf.linalg.diag(tf.transpose(sums, [0, 2, 1]))  # (I, J, O, O)
    return tf.reshape(tf.transpose(whole, [0, 2, 1, 3]), [i * outputs, j * outputs])
