"""A block without correlations."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tfbdl.inference.laplace.blocks.base import Block, Inputs, Tensors
from tfbdl.inference.laplace.covariance import Diagonal
from tfbdl.inference.laplace.information import Information
from tfbdl.inference.laplace.parts import Part, sum_of_squares, variance


class DiagonalBlock(Block):
    """The diagonal of H, shape (p,), of one weight tensor."""

    fields = ("h",)

    @property
    def bytes(self) -> int:
        """The diagonal and its inverse, in float64."""
        return 2 * 8 * self.size

    def statistics(self, parts: Sequence[Part], weights: tf.Tensor) -> Tensors:
        return (sum_of_squares(parts[0].weighted(weights)),)

    def statistics_at(
        self, inputs: Inputs, information: Information, weights: tf.Tensor
    ) -> Tensors:
        (a,) = inputs
        return (tf.reshape(tf.matmul(a**2, information.diagonal(), transpose_a=True), [-1]),)

    def finish(self, total: Tensors) -> None:
        (self.h,) = total

    def quadratic(self, d: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.cast(self.h, d.dtype) * d**2)

    def log_det(self, delta: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.math.log(c * self.h + delta))

    def factors(self, delta: tf.Tensor, c: tf.Tensor) -> Tensors:
        return (1.0 / (c * self.h + delta),)

    def variance(self, parts: Sequence[Part], factors: Tensors) -> tf.Tensor:
        return variance(parts[0], tf.cast(factors[0], parts[0].dtype))

    def variances_of_weights(self, factors: Tensors) -> tf.Tensor:
        return factors[0]

    def covariance_at(self, inputs: Inputs, factors: Tensors) -> Diagonal:
        (a,) = inputs
        return Diagonal(tf.matmul(a**2, tf.reshape(factors[0], [a.shape[1], -1])))

    def sample(self, noise: tf.Tensor, factors: Tensors) -> tf.Tensor:
        return noise * tf.sqrt(factors[0])
