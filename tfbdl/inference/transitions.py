"""Many steps of many chains in one compiled call."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfbdl.inference.adaptation import Adaptation, Tuning
from tfbdl.inference.kernels import Kernel
from tfbdl.inference.kernels.base import Density, Info, State
from tfbdl.inference.kernels.noise import Noise


class Position(NamedTuple):
    """All that a chain goes on from; the first axis of every tensor is that of the chains."""

    chain: tf.Tensor
    state: State
    tuning: Tuning


class Draws(NamedTuple):
    """What is kept of B samples of C chains.

    theta is (B, C, D), all else (B, C): the log density, the mean acceptance of the steps since
    the sample before, whether one of them diverged, and how many gradients they took.
    """

    theta: tf.Tensor
    log_prob: tf.Tensor
    accept_prob: tf.Tensor
    diverging: tf.Tensor
    num_gradients: tf.Tensor

    @classmethod
    def like(cls, position: Position) -> Draws:
        """One sample of the chains of a position, of zeros."""
        theta, log_prob = (np.zeros_like(a) for a in position.state[:2])
        counts = np.zeros(log_prob.shape, np.int32)
        return cls(theta, log_prob, np.zeros_like(log_prob), counts.astype(bool), counts)


class Transitions:
    """Warm-up and sampling of chains, as functions that can be compiled.

    Steps are numbered from 0, through warm-up and sampling. The noise of a step is that of its
    number: the same steps in other calls are the same steps.

    Args:
        density: theta (C, D) to its log density (C,).
        kernel: the transition.
        adaptation: its tuning in warm-up.
        seed: of all noise.
        thinning: steps from sample to sample.
        block: B, the most samples of a call.
    """

    def __init__(
        self,
        density: Density,
        kernel: Kernel,
        adaptation: Adaptation,
        *,
        seed: int,
        thinning: int,
        block: int,
    ) -> None:
        self.density = density
        self.kernel = kernel
        self.adaptation = adaptation
        self.seed = seed
        self.thinning = thinning
        self.block = block

    def start(self, chain: tf.Tensor, theta: tf.Tensor) -> Position:
        """The position of chains with the numbers `chain`, (C,), at theta, (C, D)."""
        state = self.kernel.init(self.density, theta)
        return Position(chain, state, self.adaptation.init(theta))

    def warm_up(
        self, position: Position, first: tf.Tensor, count: tf.Tensor
    ) -> tuple[Position, tf.Tensor]:
        """`count` steps from step `first`, with tuning; and their mean acceptance, (C,)."""

        def step(i: tf.Tensor, position: Position, accepted: tf.Tensor) -> tuple[Any, ...]:
            position, info = self._step(i, position)
            tuning = self.adaptation.update(
                position.tuning, i, position.state.theta, info.accept_prob
            )
            return i + 1, position._replace(tuning=tuning), accepted + info.accept_prob

        _, position, accepted = tf.while_loop(
            lambda i, *_: i < first + count,
            step,
            (first, position, tf.zeros_like(position.state.log_prob)),
        )
        return position, accepted / tf.cast(count, accepted.dtype)

    def finish_warm_up(self, position: Position) -> Position:
        """The position from which samples are taken."""
        return position._replace(tuning=self.adaptation.finish(position.tuning))

    def sample(
        self, position: Position, first: tf.Tensor, count: tf.Tensor
    ) -> tuple[Position, Draws]:
        """`count` samples from step `first`; B are returned, of which the others are void."""

        def sample(b: tf.Tensor, position: Position, arrays: Draws) -> tuple[Any, ...]:
            position, info = self._thinned(first + b * self.thinning, position)
            kept = Draws(position.state.theta, position.state.log_prob, *info)
            arrays = Draws(*(a.write(b, value) for a, value in zip(arrays, kept, strict=True)))
            return b + 1, position, arrays

        dtype = position.state.theta.dtype
        dtypes = (dtype, dtype, dtype, tf.bool, tf.int32)
        arrays = Draws(*(tf.TensorArray(dtype, self.block) for dtype in dtypes))
        _, position, arrays = tf.while_loop(
            lambda b, *_: b < count, sample, (tf.constant(0), position, arrays)
        )
        return position, Draws(*(array.stack() for array in arrays))

    def _step(self, i: tf.Tensor, position: Position) -> tuple[Position, Info]:
        chain, state, tuning = position
        noise = Noise.at(self.seed, i, chain)
        state, info = self.kernel.step(self.density, state, noise, tuning.step_size, tuning.scale)
        return position._replace(state=state), info

    def _thinned(self, first: tf.Tensor, position: Position) -> tuple[Position, Info]:
        """The steps up to the next sample, and what sums them up."""
        position, info = self._step(first, position)
        if self.thinning == 1:
            return position, info

        def step(i: tf.Tensor, position: Position, so_far: Info) -> tuple[Any, ...]:
            position, info = self._step(i, position)
            summed = Info(
                so_far.accept_prob + info.accept_prob,
                so_far.diverging | info.diverging,
                so_far.num_gradients + info.num_gradients,
            )
            return i + 1, position, summed

        _, position, info = tf.while_loop(
            lambda i, *_: i < first + self.thinning, step, (first + 1, position, info)
        )
        return position, info._replace(accept_prob=info.accept_prob / self.thinning)
