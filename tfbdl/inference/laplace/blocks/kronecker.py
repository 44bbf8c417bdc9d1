"""A block that is a Kronecker product: the kernel of a dense layer or of a convolution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from tfbdl.inference.laplace.blocks.base import Block, Inputs, Tensors
from tfbdl.inference.laplace.covariance import InBasis
from tfbdl.inference.laplace.information import Information
from tfbdl.inference.laplace.parts import Factored, Part, variance


class KroneckerBlock(Block):
    """H = A x G / n, for A = sum a a^T of the inputs and G = sum g g^T of the output gradients.

    Both sums are over all examples and positions, n of them (Martens and Grosse 2015, section 3;
    of convolutions Grosse and Martens 2016, theorem 1). In the basis of the eigenvectors of both
    factors H is diagonal, so that the precision of a prior is added exactly (Ritter et al. 2018;
    Immer et al. 2021, section 3.3), if it is one number for the whole block.

    Args:
        size: p = I O.
        inputs: I.
    """

    values_a: tf.Tensor
    values_g: tf.Tensor
    vectors_a: tf.Tensor
    vectors_g: tf.Tensor
    count: tf.Tensor
    fields: ClassVar[tuple[str, ...]] = ("vectors_a", "values_a", "vectors_g", "values_g", "count")

    def __init__(self, size: int, inputs: int) -> None:
        super().__init__(size)
        self.inputs, self.outputs = inputs, size // inputs

    @property
    def bytes(self) -> int:
        """The factors and their eigenvectors, the eigenvalues and their inverses, in float64."""
        return 2 * 8 * (self.inputs**2 + self.outputs**2 + self.size)

    def statistics(self, parts: Sequence[Part], weights: tf.Tensor) -> Tensors:
        (part,) = parts
        assert isinstance(part, Factored)
        g = part.weighted(weights).g
        a = part.a * tf.sqrt(weights)[:, tf.newaxis, tf.newaxis]
        count = tf.reduce_sum(weights) * a.shape[1]
        a, g = tf.reshape(a, [-1, self.inputs]), tf.reshape(g, [-1, self.outputs])
        return tf.matmul(a, a, transpose_a=True), tf.matmul(g, g, transpose_a=True), count

    def statistics_at(
        self, inputs: Inputs, information: Information, weights: tf.Tensor
    ) -> Tensors:
        (a,) = inputs
        counted = a * weights[:, tf.newaxis]
        return tf.matmul(counted, a, transpose_a=True), information.sum(), tf.reduce_sum(weights)

    def finish(self, total: Tensors) -> None:
        a, g, count = total
        values_a, vectors_a = np.linalg.eigh(a)
        values_g, vectors_g = np.linalg.eigh(g / count)
        self._take(vectors_a, np.maximum(values_a, 0), vectors_g, np.maximum(values_g, 0), count)

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._take(*(arrays[name] for name in self.fields))

    def _take(self, *fields: Any) -> None:
        for name, value in zip(self.fields, fields, strict=True):
            setattr(self, name, tf.constant(value))
        self.values = self.values_a[:, tf.newaxis] * self.values_g  # (I, O)

    @property
    def total(self) -> Tensors:
        """A, G and n, each of which is added up over sets of data."""
        a = tf.matmul(self.vectors_a * self.values_a, self.vectors_a, transpose_b=True)
        g = tf.matmul(self.vectors_g * self.values_g, self.vectors_g, transpose_b=True)
        return a, g * self.count, self.count

    def quadratic(self, d: tf.Tensor) -> tf.Tensor:
        vectors_a, vectors_g, values = (
            tf.cast(of, d.dtype) for of in (self.vectors_a, self.vectors_g, self.values)
        )
        d = tf.reshape(d, [self.inputs, self.outputs])
        turned = tf.matmul(tf.matmul(vectors_a, d, transpose_a=True), vectors_g)
        return tf.reduce_sum(values * turned**2)

    def log_det(self, delta: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.math.log(c * self.values + delta[0]))

    def factors(self, delta: tf.Tensor, c: tf.Tensor) -> Tensors:
        return self.vectors_a, self.vectors_g, 1.0 / (c * self.values + delta[0])

    def variance(self, parts: Sequence[Part], factors: Tensors) -> tf.Tensor:
        (part,) = parts
        assert isinstance(part, Factored)
        vectors_a, vectors_g, inverse = (tf.cast(f, part.a.dtype) for f in factors)
        turned = Factored(_turned(part.a, vectors_a), _turned(part.g, vectors_g))
        return variance(turned, tf.reshape(inverse, [-1]))

    def variances_of_weights(self, factors: Tensors) -> tf.Tensor:
        vectors_a, vectors_g, inverse = factors
        variances = tf.matmul(tf.matmul(vectors_a**2, inverse), vectors_g**2, transpose_b=True)
        return tf.reshape(variances, [-1])

    def covariance_at(self, inputs: Inputs, factors: Tensors) -> InBasis:
        (a,) = inputs
        vectors_a, vectors_g, inverse = factors
        return InBasis(vectors_g, tf.matmul(tf.matmul(a, vectors_a) ** 2, inverse))

    def sample(self, noise: tf.Tensor, factors: Tensors) -> tf.Tensor:
        vectors_a, vectors_g, inverse = factors
        draws = tf.reshape(noise, [-1, self.inputs, self.outputs]) * tf.sqrt(inverse)
        draws = tf.einsum("ia,nab,ob->nio", vectors_a, draws, vectors_g)
        return tf.reshape(draws, [-1, self.size])


def _turned(values: tf.Tensor, basis: tf.Tensor) -> tf.Tensor:
    """`values`, shape (..., I), in a basis of columns; as one product of matrices."""
    flat = tf.matmul(tf.reshape(values, [-1, values.shape[-1]]), basis)
    return tf.reshape(flat, values.shape)
