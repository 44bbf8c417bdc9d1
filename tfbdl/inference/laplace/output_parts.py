"""The outputs of a network, one by one, in a row of F numbers for each example."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbdl.inference.laplace.information import Independent, Information, Rooted
from tfbdl.inference.laplace.joint_rows import JointRows
from tfbdl.inference.laplace.output_fisher import information, information_root
from tfbdl.likelihoods import Likelihood


class OutputPart(NamedTuple):
    """One output of a network, columns `start` to `stop` - 1 of the row.

    likelihood: p(y | output).
    weight: the power to which it counts.
    shape: the shape of an example.
    """

    likelihood: Likelihood
    weight: float
    start: int
    shape: tuple[int, ...]

    @property
    def stop(self) -> int:
        """The number of the first column behind it."""
        return self.start + math.prod(self.shape)

    @property
    def last(self) -> int:
        """The length of the last axis."""
        return self.shape[-1] if self.shape else 1

    def take(self, rows: tf.Tensor) -> tf.Tensor:
        """The output, shape (B, ...), out of rows of shape (B, F)."""
        return tf.reshape(rows[:, self.start : self.stop], [-1, *self.shape])

    def positions_of(self, numbers: tf.Tensor) -> tf.Tensor:
        """What rows of shape (B, F) say alike of all numbers of a position, shape (B, ...)."""
        own = self.take(numbers)
        return own[..., 0] if self.shape else own

    def information(self, f: tf.Tensor, y: tf.Tensor | None) -> Information:
        """The Fisher information about outputs of R positions, shape (R, O), in float64.

        Args:
            f: the outputs.
            y: the targets of examples of one position, for families whose information is not known.
        """
        known = information(self.likelihood, tf.cast(f, tf.float64))
        if known is None:
            root = information_root(self.likelihood, y, tf.reshape(f, [-1, *self.shape]))
            known = Rooted(tf.cast(root, tf.float64))
        return known.scaled(tf.fill([f.shape[0]], tf.constant(self.weight, tf.float64)))

    @property
    def has_information(self) -> bool:
        """Whether the information of the family is known, whatever y is."""
        return information(self.likelihood, tf.zeros([1, *self.shape])) is not None

    def event(self) -> int:
        """C, how many numbers beside each other describe an element of y, whatever the others are.

        For a family that is not known here, C counts all numbers of an example.
        """
        known = information(self.likelihood, tf.zeros([1, *self.shape]))
        if known is None:
            return math.prod(self.shape)
        elementwise = isinstance(known, Independent) and self.likelihood.outputs_per_function == 1
        return 1 if elementwise else self.last


def output_parts(likelihood: Likelihood, shape: Sequence[int]) -> list[OutputPart]:
    """The parts of outputs whose examples have a shape, under a likelihood of all of them."""
    if not isinstance(likelihood, JointRows):
        return [OutputPart(likelihood, 1.0, 0, tuple(shape))]
    weights = keras.tree.flatten(likelihood.joint.weights)
    starts = np.cumsum([0, *likelihood.outputs.sizes])[:-1].tolist()
    columns = zip(likelihood.parts, weights, starts, likelihood.outputs.shapes, strict=True)
    return [OutputPart(part, float(w), start, tuple(s)) for part, w, start, s in columns]
