"""Covariances of normal outputs, position by position, in the form that they have.

S_n is the covariance of the O outputs at position n of R, such as a pixel, shape (O, O).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import tensorflow as tf


class Diagonal(NamedTuple):
    """S_n = diag(values_n), for values of shape (R, O)."""

    values: tf.Tensor

    def diagonal(self) -> tf.Tensor:
        """The variances, shape (R, O)."""
        return self.values

    def dense(self) -> tf.Tensor:
        """The matrices themselves, shape (R, O, O)."""
        return tf.linalg.diag(self.values)

    def times(self, v: tf.Tensor) -> tf.Tensor:
        """S_n v_n, shape (R, O), for v of that shape."""
        return self.values * v

    def root_times(self, noise: tf.Tensor) -> tf.Tensor:
        """Draws of N(0, S_n), shape (S, R, O), from unit noise of that shape."""
        return noise * tf.cast(tf.sqrt(tf.maximum(self.values, 0.0)), noise.dtype)


class InBasis(NamedTuple):
    """S_n = V diag(values_n) V^T, for V of shape (O, K) and values of (R, K), at least 0."""

    basis: tf.Tensor
    values: tf.Tensor

    def diagonal(self) -> tf.Tensor:
        """As `Diagonal.diagonal`."""
        return tf.matmul(self.values, self.basis**2, transpose_b=True)

    def dense(self) -> tf.Tensor:
        """As `Diagonal.dense`."""
        return tf.einsum("ok,nk,pk->nop", self.basis, self.values, self.basis)

    def times(self, v: tf.Tensor) -> tf.Tensor:
        """As `Diagonal.times`."""
        return tf.matmul(tf.matmul(v, self.basis) * self.values, self.basis, transpose_b=True)

    def root_times(self, noise: tf.Tensor) -> tf.Tensor:
        """As `Diagonal.root_times`, from noise of shape (S, R, K)."""
        basis, scales = (tf.cast(v, noise.dtype) for v in (self.basis, tf.sqrt(self.values)))
        scaled = tf.reshape(noise * scales, [-1, basis.shape[1]])
        drawn = tf.matmul(scaled, basis, transpose_b=True)
        return tf.reshape(drawn, [*noise.shape[:2], self.basis.shape[0]])


class Dense(NamedTuple):
    """S_n as matrices, shape (R, O, O)."""

    matrices: tf.Tensor

    def diagonal(self) -> tf.Tensor:
        """As `Diagonal.diagonal`."""
        return tf.linalg.diag_part(self.matrices)

    def dense(self) -> tf.Tensor:
        """As `Diagonal.dense`."""
        return self.matrices

    def times(self, v: tf.Tensor) -> tf.Tensor:
        """As `Diagonal.times`."""
        return tf.linalg.matvec(self.matrices, v)

    def root_times(self, noise: tf.Tensor) -> tf.Tensor:
        """As `Diagonal.root_times`."""
        return self.rooted().root_times(noise)

    def rooted(self) -> Root:
        """The same law as a `Root`, by a decomposition, which is dear."""
        values, vectors = tf.linalg.eigh(self.matrices)
        return Root(vectors * tf.sqrt(tf.maximum(values, 0.0))[:, tf.newaxis])


class Root(NamedTuple):
    """S_n = R_n R_n^T, for roots of shape (R, O, O)."""

    roots: tf.Tensor

    def diagonal(self) -> tf.Tensor:
        """As `Diagonal.diagonal`."""
        return tf.reduce_sum(self.roots**2, axis=2)

    def dense(self) -> tf.Tensor:
        """As `Diagonal.dense`."""
        return tf.matmul(self.roots, self.roots, transpose_b=True)

    def times(self, v: tf.Tensor) -> tf.Tensor:
        """As `Diagonal.times`."""
        return tf.linalg.matvec(self.roots, tf.linalg.matvec(self.roots, v, transpose_a=True))

    def root_times(self, noise: tf.Tensor) -> tf.Tensor:
        """As `Diagonal.root_times`."""
        return tf.einsum("nij,snj->sni", tf.cast(self.roots, noise.dtype), noise)


Covariance: TypeAlias = Diagonal | InBasis | Dense | Root


class DrawnWeights(NamedTuple):
    """Functions z_s = a_n^T W_s of drawn weights, the same ones at all positions.

    a: the inputs of the weights at each position, shape (R, I).
    w: the draws less their mean, shape (S, I, O).
    """

    a: tf.Tensor
    w: tf.Tensor

    def draws(self) -> tf.Tensor:
        """Z, shape (S, R, O)."""
        return tf.matmul(self.a, self.w)


class OutputCovariances(NamedTuple):
    """The covariances of z, sums over blocks of weights, or of f = z - p^T z for classes.

    summands: the covariances that are added.
    p: shape (R, O): f is the log of a softmax whose probabilities they are, linearised; else None.
    of_weights: the functions that draws are made of; None where each position is drawn alone.
    """

    summands: Sequence[Covariance]
    p: tf.Tensor | None = None
    of_weights: DrawnWeights | None = None

    @property
    def num_positions(self) -> int:
        """R."""
        return int(_values(self.summands[0]).shape[0])

    @property
    def num_outputs(self) -> int:
        """O."""
        first = self.summands[0]
        return int((first.basis if isinstance(first, InBasis) else first[0][0]).shape[0])

    def rows(self, part: slice) -> OutputCovariances:
        """The outputs of some positions."""
        chosen = [
            InBasis(s.basis, s.values[part]) if isinstance(s, InBasis) else type(s)(s[0][part])
            for s in self.summands
        ]
        of_weights = self.of_weights and self.of_weights._replace(a=self.of_weights.a[part])
        return OutputCovariances(chosen, None if self.p is None else self.p[part], of_weights)

    def rooted(self) -> OutputCovariances:
        """The same, in the form that draws are taken from."""
        summands = [s.rooted() if isinstance(s, Dense) else s for s in self.summands]
        return self._replace(summands=summands)

    def diagonal(self) -> tf.Tensor:
        """The variances, shape (R, O)."""
        variances = tf.add_n([s.diagonal() for s in self.summands])
        if self.p is None:
            return variances
        sp = tf.add_n([s.times(self.p) for s in self.summands])
        return variances - 2.0 * sp + tf.reduce_sum(self.p * sp, axis=1, keepdims=True)

    def dense(self) -> tf.Tensor:
        """The matrices, shape (R, O, O)."""
        s = tf.add_n([summand.dense() for summand in self.summands])
        if self.p is None:
            return s
        sp = tf.linalg.matvec(s, self.p)
        of_shift = tf.reduce_sum(self.p * sp, axis=1)[:, tf.newaxis, tf.newaxis]
        return s - sp[:, tf.newaxis] - sp[:, :, tf.newaxis] + of_shift

    def noise_shapes(self, num_samples: int) -> list[list[int]]:
        """The shapes of the noise that `draws` takes, one for each summand."""
        if self.of_weights is not None:
            return []
        return [[num_samples, *_values(s).shape[:2]] for s in self.summands]

    def draws(self, noises: Sequence[tf.Tensor]) -> tf.Tensor:
        """Draws of N(0, S_n), shape (S, R, O)."""
        if self.of_weights is not None:
            drawn = self.of_weights.draws()
        else:
            pairs = zip(self.summands, noises, strict=True)
            drawn = tf.add_n([summand.root_times(noise) for summand, noise in pairs])
        if self.p is None:
            return drawn
        return drawn - tf.reduce_sum(tf.cast(self.p, drawn.dtype) * drawn, axis=2, keepdims=True)


def joined(pieces: Sequence[Covariance], number: int) -> Covariance:
    """The first `number` positions of pieces of one kind, one behind the other."""
    values = tf.concat([_values(piece) for piece in pieces], axis=0)[:number]
    first = pieces[0]
    return InBasis(first.basis, values) if isinstance(first, InBasis) else type(first)(values)


def _values(summand: Covariance) -> tf.Tensor:
    return summand.values if isinstance(summand, InBasis) else summand[0]
