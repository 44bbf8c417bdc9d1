"""A block with all correlations of some of its weights, while the others stay at their means."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfbdl.inference.laplace.blocks.base import Inputs, Tensors, rows, rows_at
from tfbdl.inference.laplace.blocks.full import FullBlock
from tfbdl.inference.laplace.information import Information
from tfbdl.inference.laplace.parts import Part


class SubnetworkBlock(FullBlock):
    """H of k of p weights, shape (k, k).

    The idea is that of Daxberger et al. 2021, "Bayesian deep learning via subnetwork inference".

    Args:
        sizes: the numbers of elements of the weight tensors, p together.
        chosen: the numbers of the k weights, in rising order.
    """

    def __init__(self, sizes: Sequence[int], chosen: np.ndarray) -> None:
        super().__init__(sizes)
        self._chosen = np.asarray(chosen)

    @property
    def bytes(self) -> int:
        """H and the inverse of its factor beside what it leaves out, in float64."""
        return 8 * len(self._chosen) * (len(self._chosen) + self.size)

    def statistics(self, parts: Sequence[Part], weights: tf.Tensor) -> Tensors:
        j = rows([part.weighted(weights) for part in parts], tf.float64)
        return self._product(tf.reshape(j, [-1, self.size]))

    def statistics_at(
        self, inputs: Inputs, information: Information, weights: tf.Tensor
    ) -> Tensors:
        return self._product(rows_at(inputs, information, self._sizes))

    def quadratic(self, d: tf.Tensor) -> tf.Tensor:
        return super().quadratic(tf.gather(d, self._chosen))

    def log_det(self, delta: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
        """The log determinant of the chosen weights, and of the prior of the others."""
        others = np.setdiff1d(np.arange(self.size), self._chosen)
        of_others = tf.reduce_sum(tf.math.log(tf.gather(delta, others)))
        return super().log_det(tf.gather(delta, self._chosen), c) + of_others

    def factors(self, delta: tf.Tensor, c: tf.Tensor) -> Tensors:
        """L^-1 in the columns of the chosen weights, shape (k, p), and 0 in the others."""
        (inverse,) = super().factors(tf.gather(delta, self._chosen), c)
        shape = [self.size, len(self._chosen)]
        columns = tf.scatter_nd(self._chosen[:, np.newaxis], tf.transpose(inverse), shape)
        return (tf.transpose(columns),)

    def sample(self, noise: tf.Tensor, factors: Tensors) -> tf.Tensor:
        return super().sample(noise[:, : len(self._chosen)], factors)

    def _product(self, j: tf.Tensor) -> Tensors:
        j = tf.gather(j, self._chosen, axis=1)
        return (tf.matmul(j, j, transpose_a=True),)
