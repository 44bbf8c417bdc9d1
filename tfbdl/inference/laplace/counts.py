"""Outputs of a batch that count: all but those at positions that are masked or have no label."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbdl.batches import PaddedBatch
from tfbdl.graphs import Compiled
from tfbdl.inference.laplace.fixed_outputs import FixedOutputs
from tfbdl.inference.laplace.jacobian import Cotangents, Jacobian, State, rows
from tfbdl.inference.laplace.joint_rows import JointRows, of_numbers
from tfbdl.keras_private import keras_mask
from tfbdl.likelihoods import Likelihood
from tfbdl.likelihoods.positions import mask_at_positions, with_mask


class CountedBatch(NamedTuple):
    """A batch of B examples.

    x: the inputs.
    y: the targets.
    weights: how much each example counts in sums over them, shape (B,).
    counts: 1 for each output that counts and 0 for the others, shape (B, F); None if all count.
    """

    x: Any
    y: Any
    weights: tf.Tensor
    counts: tf.Tensor | None

    def log_prob(self, likelihood: Likelihood, outputs: tf.Tensor) -> tf.Tensor:
        """Log p(y | outputs) of each example, of the outputs that count, shape (B,), in nats."""
        if self.counts is None:
            return likelihood.log_prob(self.y, outputs)
        mask = tf.reshape(self.counts > 0, tf.shape(outputs))
        of_columns = isinstance(likelihood, JointRows) or outputs.shape.rank == 1
        masked = with_mask(outputs, mask if of_columns else mask[..., 0])
        return likelihood.log_prob(self.y, masked)

    def among_counted(self, cotangents: Cotangents) -> Cotangents:
        """The parts of directions that are of outputs that count."""
        if self.counts is None:
            return cotangents
        counts = self.counts > 0
        return lambda outputs: tf.where(counts, cotangents(outputs), tf.zeros([], outputs.dtype))


class Masks:
    """The masks that Keras' layers hand on with the outputs.

    Args:
        jacobian: the network.
        likelihood: p(y | f), of all outputs side by side.
        jit_compile: as in `Compiled`.
    """

    def __init__(
        self, jacobian: Jacobian, likelihood: Likelihood, jit_compile: bool | None
    ) -> None:
        self._jacobian, self._likelihood = jacobian, likelihood
        self._is_masked: bool | None = None
        self._of_batch = Compiled(self._rows, jit_compile)

    def of(self, theta: tf.Tensor, state: State, batch: PaddedBatch) -> tf.Tensor | None:
        """True for each output of a batch that counts, shape (B, F); None if there is no mask."""
        if self._is_masked is None:
            one = tf.nest.map_structure(lambda leaf: leaf[:1], batch.x)
            outputs = self._jacobian.outputs(theta, state, one)
            self._is_masked = keras_mask(outputs) is not None
        return self._of_batch(theta, state, batch.x) if self._is_masked else None

    def _rows(self, theta: tf.Tensor, state: State, x: Any) -> tf.Tensor:
        """Nothing of the network is computed but what makes the mask."""
        outputs = self._jacobian.outputs(theta, state, x)
        mask = keras_mask(outputs)
        if not isinstance(self._likelihood, JointRows):
            mask = mask_at_positions(outputs)
        return rows(of_numbers(mask, outputs))


class Counts:
    """The outputs that count, and sums over them.

    Args:
        jacobian: the network.
        likelihood: p(y | f), of all outputs side by side.
        like: the outputs of a few examples, with the mask that they have.
        jit_compile: as in `Compiled`.

    Attributes:
        sums: a function of outputs and their batch: sums over the examples by their weights of
            log p(y | f) in nats, of the numbers in y, and of 1.
    """

    def __init__(
        self, jacobian: Jacobian, likelihood: Likelihood, like: tf.Tensor, jit_compile: bool | None
    ) -> None:
        self._jacobian, self._likelihood = jacobian, likelihood
        self._like, self._is_masked = like, keras_mask(like) is not None
        self._outputs = FixedOutputs(jacobian, math.prod(like.shape[1:]))
        self._of_batch = Compiled(self._rows, jit_compile)
        self.sums = Compiled(self._sums, jit_compile)

    def of(self, theta: tf.Tensor, state: State, batch: PaddedBatch) -> CountedBatch:
        """The batch, with what counts of it.

        Raises:
            ValueError: if it does not fit the network or its likelihood.
        """
        self._outputs.check(theta, state, batch.x)
        y = keras.tree.map_structure(lambda values: values.numpy(), batch.y)
        self._likelihood.check_targets(y, self._like)
        nothing, counts = tf.zeros([batch.weights.shape[0], *self._like.shape[1:]]), None
        if self._is_masked or self._likelihood.counted(batch.y, nothing) is not None:
            counts = self._of_batch(theta, state, batch)
        return CountedBatch(batch.x, batch.y, batch.weights, counts)

    def _rows(self, theta: tf.Tensor, state: State, batch: PaddedBatch) -> tf.Tensor:
        outputs = tf.zeros([batch.weights.shape[0], *self._like.shape[1:]])
        if self._is_masked:  # nothing of the network is computed but what makes the mask
            outputs = self._jacobian.outputs(theta, state, batch.x)
        counted = of_numbers(self._likelihood.counted(batch.y, outputs), outputs)
        return tf.cast(rows(counted), batch.weights.dtype)

    def _sums(self, outputs: tf.Tensor, batch: CountedBatch) -> tf.Tensor:
        log_prob, num = batch.log_prob(self._likelihood, outputs), tf.reduce_sum(batch.weights)
        count = num * rows(outputs).shape[1]
        if batch.counts is not None:
            count = tf.reduce_sum(batch.weights * tf.reduce_sum(batch.counts, axis=1))
        sums = tf.reduce_sum(batch.weights * log_prob), count, num
        return tf.stack([tf.cast(v, tf.float64) for v in sums])


def check_sums(sums: np.ndarray) -> None:
    """Raises ValueError where nothing counts in the sums over all data."""
    if not sums[2]:
        raise ValueError("x has weights of 0 for all examples; give one that counts")
    if not sums[1]:
        raise ValueError("y has no label that counts; all are ignored or masked")
