"""Passes over data through the Jacobian of any network, some directions of the outputs at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfbdl.graphs import Compiled
from tfbdl.inference.laplace.blocks.base import Tensors
from tfbdl.inference.laplace.counts import CountedBatch
from tfbdl.inference.laplace.covariance import Dense, Diagonal, OutputCovariances
from tfbdl.inference.laplace.curvature import cotangents, hessian
from tfbdl.inference.laplace.fixed_outputs import FixedOutputs
from tfbdl.inference.laplace.jacobian import Jacobian, State, rows
from tfbdl.inference.laplace.output_parts import OutputPart
from tfbdl.inference.laplace.precision import Precision, Total
from tfbdl.likelihoods import Likelihood

NUMBERS = 50_000_000
"""Numbers that a batch may take in the making: 200 MB in float32."""
_DIRECTIONS = 256
"""Directions at once where their covariances are taken, of which only some may be asked for."""


class NetworkPass:
    """What a batch adds to H, and the covariances of its outputs, from products with J.

    Args:
        jacobian: the Jacobian.
        parts: the outputs, one by one.
        form: the precision, in its structure.
        likelihood: p(y | f), of all outputs side by side.
        kind: a curvature.
        jit_compile: as in `Compiled`.
    """

    def __init__(
        self,
        jacobian: Jacobian,
        parts: Sequence[OutputPart],
        form: Precision,
        *,
        likelihood: Likelihood,
        kind: str,
        jit_compile: bool | None,
    ) -> None:
        self._jacobian, self._parts = jacobian, list(parts)
        self._form, self._likelihood, self._kind = form, likelihood, kind
        self._num_outputs = parts[-1].stop
        self._outputs = FixedOutputs(jacobian, self._num_outputs)
        self._num_directions = self._num_outputs if kind == "ggn" else 1
        self._at_once = self._directions(self._num_directions)
        step = self._hessian if kind == "hessian" else self._gauss_newton
        self._step = Compiled(step, jit_compile)
        self._whole = Compiled(self._moments, jit_compile)
        self._of_parts = [Compiled(self._part_moments(part), jit_compile) for part in parts]

    def numbers(self, *, of_fit: bool) -> int:
        """About how many numbers an example takes."""
        if of_fit and self._kind == "hessian":
            return self._numbers(self._num_directions, False) * self._form.size
        if of_fit:
            return self._numbers(self._at_once, self._form.is_joint)
        return self._numbers(max(map(self._directions_of, self._parts)), self._form.is_joint)

    def numbers_of_whole(self) -> int:
        """About how many numbers an example takes in `whole`."""
        return self._numbers(self._num_outputs, self._form.is_joint) + self._num_outputs**2

    def add(
        self, total: Total, theta: tf.Tensor, state: State, batch: CountedBatch, key: tf.Tensor
    ) -> tuple[Total, tf.Tensor]:
        """The statistics of H so far and in a batch, and the outputs."""
        for start in range(0, self._num_directions, self._at_once):
            statistics, outputs = self._step(theta, state, batch, key, tf.constant(start))
            total = self._form.add(total, statistics)
        return total, outputs

    def covariances(
        self, theta: tf.Tensor, state: State, x: Any, factors: list[Tensors]
    ) -> tuple[tf.Tensor, list[OutputCovariances]]:
        """The outputs, and of each the covariances within its positions."""
        self._outputs.check(theta, state, x)
        laws = []
        for part, step in zip(self._parts, self._of_parts, strict=True):
            pieces = []
            for start in range(part.start, part.stop, self._directions_of(part)):
                outputs, matrices = step(theta, state, x, factors, tf.constant(start))
                pieces.append(matrices)
            event = part.event()
            matrices = tf.concat(pieces, axis=1)[:, : (part.stop - part.start) // event]
            matrices = tf.reshape(matrices, [-1, event, event])
            law = Diagonal(matrices[:, 0]) if event == 1 else Dense(matrices)
            laws.append(OutputCovariances([law]))
        return outputs, laws

    def whole(
        self, theta: tf.Tensor, state: State, x: Any, factors: list[Tensors]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The outputs, and their covariance at each x, shape (B, F, F)."""
        self._outputs.check(theta, state, x)
        return self._whole(theta, state, x, factors)

    def whole_laws(
        self, theta: tf.Tensor, state: State, x: Any, factors: list[Tensors]
    ) -> tuple[tf.Tensor, list[OutputCovariances]]:
        """The outputs, and the covariance of each of them, taken as one position."""
        outputs, matrices = self.whole(theta, state, x, factors)
        spans = [slice(part.start, part.stop) for part in self._parts]
        return outputs, [OutputCovariances([Dense(matrices[:, s, s])]) for s in spans]

    def _numbers(self, k: int, written_out: bool) -> int:
        return self._jacobian.numbers(k, written_out) + k * self._num_outputs

    def _directions(self, most: int) -> int:
        """As many directions of one example as memory is good for."""
        fitting = NUMBERS * most // max(self._numbers(most, self._form.is_joint), 1)
        return max(min(most, fitting), 1)

    def _directions_of(self, part: OutputPart) -> int:
        """Directions at once, those of whole positions."""
        event = part.event()
        fitting = self._directions(min(part.stop - part.start, max(_DIRECTIONS, event)))
        return event * max(fitting // event, 1)

    def _gauss_newton(
        self, theta: tf.Tensor, state: State, batch: CountedBatch, key: tf.Tensor, start: tf.Tensor
    ) -> tuple[list[Tensors], tf.Tensor]:
        part = (start, self._at_once) if self._at_once < self._num_directions else None
        along = cotangents(self._kind, self._likelihood, batch.y, key, part)
        outputs, parts = self._jacobian(theta, state, batch.x, batch.among_counted(along))
        return self._form.statistics(parts, batch.weights), outputs

    def _hessian(
        self, theta: tf.Tensor, state: State, batch: CountedBatch, key: tf.Tensor, start: tf.Tensor
    ) -> tuple[list[Tensors], tf.Tensor]:
        def loss(values: tf.Tensor) -> tf.Tensor:
            everywhere = self._jacobian.subset.scatter(values, theta)
            outputs = self._jacobian.outputs(everywhere, state, batch.x)
            return -tf.reduce_sum(batch.weights * batch.log_prob(self._likelihood, outputs))

        h = hessian(loss, self._jacobian.subset.gather(theta), self._jacobian.map)
        outputs = self._jacobian.outputs(theta, state, batch.x)
        return [(0.5 * (h + tf.transpose(h)),)], outputs

    def _moments(
        self, theta: tf.Tensor, state: State, x: Any, factors: list[Tensors]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        return self._in_directions(theta, state, x, factors, tf.range(self._num_outputs))

    def _part_moments(self, part: OutputPart) -> Callable[..., Any]:
        count, event = self._directions_of(part), part.event()

        def moments(
            theta: tf.Tensor, state: State, x: Any, factors: list[Tensors], start: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor]:
            columns = start + tf.range(count)
            outputs, covariance = self._in_directions(theta, state, x, factors, columns)
            if event == 1:
                return outputs, tf.linalg.diag_part(covariance)[:, :, tf.newaxis, tf.newaxis]
            positions = count // event
            blocks = tf.reshape(covariance, [-1, positions, event, positions, event])
            return outputs, tf.einsum("btctd->btcd", blocks)

        return moments

    def _in_directions(
        self, theta: tf.Tensor, state: State, x: Any, factors: list[Tensors], columns: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The outputs, and the covariance of some columns of them, shape (B, K, K)."""

        def each(outputs: tf.Tensor) -> tf.Tensor:
            unit = tf.one_hot(columns, math.prod(outputs.shape[1:]), dtype=outputs.dtype)
            return tf.tile(unit[:, tf.newaxis], [1, rows(outputs).shape[0], 1])

        outputs, parts = self._jacobian(theta, state, x, each)
        return outputs, self._form.variance(parts, factors)
