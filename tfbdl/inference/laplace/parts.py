"""Jacobians of outputs with respect to one weight tensor, example by example.

A row of a Jacobian belongs to one example b of B and to one k of K directions in the space of the
outputs: the F outputs themselves, or the columns of a root of their Fisher information.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import tensorflow as tf


class Factored(NamedTuple):
    """J of a layer linear in its kernel: J[b, k, (i, o)] = sum over t of a[b, t, i] g[b, k, t, o].

    a: the inputs of the kernel, at T positions (steps, pixels, calls), (B, T, I); 1 is
        what a bias is multiplied with.
    g: gradients of the outputs in what comes of it, shape (B, K, T, O).
    """

    a: tf.Tensor
    g: tf.Tensor

    def dense(self) -> tf.Tensor:
        """J, shape (B, K, I O)."""
        j = tf.einsum("bti,bkto->bkio", self.a, self.g)
        return tf.reshape(j, [-1, j.shape[1], math.prod(j.shape[2:])])

    def weighted(self, weights: tf.Tensor) -> Factored:
        """sqrt(w_b) J_b, for the weights of the examples, shape (B,): in H they are w_b."""
        root = tf.sqrt(weights)[:, tf.newaxis, tf.newaxis, tf.newaxis]
        return Factored(self.a, self.g * root)

    def cast(self, dtype: tf.DType) -> Factored:
        """The same in another type."""
        return Factored(tf.cast(self.a, dtype), tf.cast(self.g, dtype))

    @property
    def dtype(self) -> tf.DType:
        """The type of J."""
        return self.a.dtype

    @property
    def is_thin(self) -> bool:
        """Whether it is of one position and fewer outputs than directions, as a last layer's."""
        _, k, positions, outputs = self.g.shape
        return positions == 1 and outputs <= k


class Whole(NamedTuple):
    """J of any weight tensor of p numbers, as it is, shape (B, K, p)."""

    j: tf.Tensor

    def dense(self) -> tf.Tensor:
        """J, shape (B, K, p)."""
        return self.j

    def weighted(self, weights: tf.Tensor) -> Whole:
        """Like `Factored.weighted`."""
        return Whole(self.j * tf.sqrt(weights)[:, tf.newaxis, tf.newaxis])

    def cast(self, dtype: tf.DType) -> Whole:
        """Like `Factored.cast`."""
        return Whole(tf.cast(self.j, dtype))

    @property
    def dtype(self) -> tf.DType:
        """The type of J."""
        return self.j.dtype

    @property
    def is_thin(self) -> bool:
        """Answers as `Factored.is_thin`."""
        return False


Part: TypeAlias = Factored | Whole


def sum_of_squares(part: Part) -> tf.Tensor:
    """The diagonal of sum_b J_b^T J_b, shape (p,)."""
    if isinstance(part, Factored) and part.a.shape[1] == 1:
        of_outputs = tf.reduce_sum(part.g[:, :, 0] ** 2, axis=1)
        squares = tf.matmul(part.a[:, 0] ** 2, of_outputs, transpose_a=True)
        return tf.reshape(squares, [-1])
    return tf.reduce_sum(part.dense() ** 2, axis=[0, 1])


def variance(part: Part, v: tf.Tensor) -> tf.Tensor:
    """J diag(v) J^T of each example, shape (B, K, K), for v of shape (p,), at least 0."""
    if isinstance(part, Factored) and part.a.shape[1] == 1:
        g = part.g[:, :, 0]
        v = tf.reshape(v, [part.a.shape[2], g.shape[2]])
        of_outputs = tf.matmul(part.a[:, 0] ** 2, v)  # (B, O)
        return tf.matmul(g * of_outputs[:, tf.newaxis], g, transpose_b=True)
    j = part.dense()
    return tf.matmul(j * v, j, transpose_b=True)
