"""Passes over data where the outputs are those of heads: no Jacobian, no backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from tfbdl.graphs import Compiled
from tfbdl.inference.laplace.blocks.base import Tensors
from tfbdl.inference.laplace.counts import CountedBatch
from tfbdl.inference.laplace.covariance import (
    Covariance,
    Diagonal,
    DrawnWeights,
    OutputCovariances,
    joined,
)
from tfbdl.inference.laplace.heads import Head
from tfbdl.inference.laplace.jacobian import Jacobian, State, rows
from tfbdl.inference.laplace.output_parts import OutputPart
from tfbdl.inference.laplace.precision import Precision, Total

Inputs: TypeAlias = dict[int, tf.Tensor]

_NUMBERS = 10_000_000
"""Numbers that what is made of some positions may take: 80 MB."""


class HeadPass:
    """What a batch adds to H, and the covariances of its outputs, position by position.

    All but the network itself is computed in float64.

    Args:
        jacobian: the Jacobian, which knows the heads.
        parts: the outputs, one by one.
        form: the precision, in its structure.
        jit_compile: as in `Compiled`.
    """

    def __init__(
        self,
        jacobian: Jacobian,
        parts: Sequence[OutputPart],
        form: Precision,
        jit_compile: bool | None,
    ) -> None:
        self._jacobian, self._parts, self._form = jacobian, list(parts), form
        self._widths = jacobian.widths_of_heads
        self._forward = Compiled(jacobian.at_heads, jit_compile)
        self._statistics = [Compiled(self._statistics_of(h), jit_compile) for h in jacobian.heads]
        self._covariances = Compiled(self._covariances_of, jit_compile)

    def numbers(self) -> int:
        """About how many numbers an example takes."""
        total = 0
        for head, width in zip(self._jacobian.heads, self._widths, strict=True):
            matrices = head.outputs**2 if self._form.is_joint else 0
            total += head.positions * (width + 8 * head.outputs + matrices)
        return total

    def add(
        self, total: Total, theta: tf.Tensor, state: State, batch: CountedBatch
    ) -> tuple[Total, tf.Tensor]:
        """The statistics of H so far and in a batch, and the outputs."""
        outputs, inputs = self._forward(theta, state, batch.x)
        for h, (head, a) in enumerate(zip(self._jacobian.heads, inputs, strict=True)):
            f = self._positions(head, outputs)
            weights = tf.repeat(batch.weights, head.positions)
            if batch.counts is not None:
                weights *= self._positions(head, batch.counts)[:, 0]
            if not self._part_of(head).has_information:  # each example is one position
                y = keras.tree.flatten(batch.y)[self._parts.index(self._part_of(head))]
                total = self._form.add(total, self._statistics[h](a, f, weights, y))
                continue
            for piece in _pieces((a, f, weights), self._rows(h, self._widths[h] * head.outputs)):
                total = self._form.add(total, self._statistics[h](*piece, None))
        return total, outputs

    def covariances(
        self,
        theta: tf.Tensor,
        state: State,
        x: Any,
        factors: list[Tensors],
        drawn: np.ndarray | None = None,
    ) -> tuple[tf.Tensor, list[OutputCovariances]]:
        """The outputs, and of each the covariances at its positions.

        Args:
            theta: weights, shape (D,).
            state: the variables that are not trained.
            x: inputs of B examples.
            factors: the posterior, as the precision needs it.
            drawn: the draws of the weights less their mean, shape (S, P), that draws of all
                positions together are made of; None if each position is drawn alone.
        """
        outputs, inputs = self._forward(theta, state, x)
        by_part = {part: _certain(part, outputs) for part in self._parts}
        for h, (head, a) in enumerate(zip(self._jacobian.heads, inputs, strict=True)):
            f = self._positions(head, outputs)
            size = self._rows(h, self._form.size * head.outputs)
            pieces = [self._covariances(*piece, factors) for piece in _pieces((a,), size)]
            summands = [joined(same, len(f)) for same in zip(*pieces, strict=True)]
            p = tf.exp(tf.cast(f, tf.float64)) if head.of_softmax else None
            of_weights = None if drawn is None else self._drawn_at(head, a, drawn)
            by_part[self._part_of(head)] = OutputCovariances(summands, p, of_weights)
        return outputs, list(by_part.values())

    def _drawn_at(self, head: Head, inputs: Inputs, drawn: np.ndarray) -> DrawnWeights:
        """The inputs of all weights of a head side by side, (R, I), and draws, (S, I, O)."""
        places = sorted(inputs)
        a = tf.concat([inputs[place] for place in places], axis=1)
        weights = tf.split(tf.cast(drawn, a.dtype), self._jacobian.subset.sizes, axis=1)
        matrices = [tf.reshape(weights[p], [len(drawn), -1, head.outputs]) for p in places]
        return DrawnWeights(a, tf.concat(matrices, axis=1))

    def _part_of(self, head: Head) -> OutputPart:
        return next(part for part in self._parts if part.start == head.start)

    def _positions(self, head: Head, outputs: tf.Tensor) -> tf.Tensor:
        """The outputs of a head at each position, shape (R, O); of one alone there may be more."""
        numbers = rows(outputs)
        if len(self._parts) > 1:
            numbers = numbers[:, head.start : head.stop]
        return tf.reshape(numbers, [-1, head.outputs])

    def _statistics_of(self, head: Head) -> Callable[..., Any]:
        part = self._part_of(head)

        def statistics(
            inputs: Inputs, f: tf.Tensor, weights: tf.Tensor, y: tf.Tensor | None
        ) -> list[Tensors | None]:
            return self._form.statistics_at(_wide(inputs), part.information(f, y), _wide(weights))

        return statistics

    def _covariances_of(self, inputs: Inputs, factors: list[Tensors]) -> list[Covariance]:
        return self._form.covariances_at(_wide(inputs), factors)

    def _rows(self, h: int, products: int) -> int:
        """Positions at once, each of so many products where all weights are one block."""
        numbers = self._widths[h] + 8 * self._jacobian.heads[h].outputs
        return max(_NUMBERS // (products if self._form.is_joint else numbers), 1)


def _pieces(values: Any, size: int) -> Iterator[Any]:
    """Structures of tensors in pieces of `size` of the first axis, filled up with zeros."""
    total = keras.tree.flatten(values)[0].shape[0]
    size = min(size, total)
    for start in range(0, total, size):
        missing = max(start + size - total, 0)

        def piece(leaf: tf.Tensor, start: int = start, missing: int = missing) -> tf.Tensor:
            part = leaf[start : start + size]
            return tf.pad(part, [[0, missing]] + [[0, 0]] * (leaf.shape.rank - 1))

        yield tf.nest.map_structure(piece, values)


def _wide(values: Any) -> Any:
    return tf.nest.map_structure(lambda leaf: tf.cast(leaf, tf.float64), values)


def _certain(part: OutputPart, outputs: tf.Tensor) -> OutputCovariances:
    """The covariances, all 0, of an output that depends on no random weight."""
    numbers = tf.zeros(
        [len(outputs) * (part.stop - part.start) // part.last, part.last], tf.float64
    )
    return OutputCovariances([Diagonal(numbers)])
