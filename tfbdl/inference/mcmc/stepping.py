"""Many steps of many chains in one compiled call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.inference.density import Density
from tfbdl.inference.mcmc.adaptation import Adaptation, Tuning
from tfbdl.inference.mcmc.kernels import Kernel
from tfbdl.inference.mcmc.kernels.base import Info


class Position(NamedTuple):
    """All that the C chains of a replica go on from, with the key of its noise, (1,).

    The first axis of all else is that of the chains.
    """

    key: tf.Tensor
    state: Any
    tuning: Tuning


class Draws(NamedTuple):
    """Draws of B samples of C chains.

    theta is (B, C, D), all else (B, C): the log density, the mean acceptance of the steps since
    the sample before, whether one of them diverged, how many gradients they took, and the energy of
    the last of them.
    """

    theta: tf.Tensor
    log_prob: tf.Tensor
    accept_prob: tf.Tensor
    diverging: tf.Tensor
    num_gradients: tf.Tensor
    energy: tf.Tensor

    @classmethod
    def like(cls, position: Position) -> Draws:
        """One sample of the chains of a position, of zeros."""
        state = position.state
        theta, log_prob = np.zeros_like(state.theta), np.zeros_like(state.log_prob)
        counts = np.zeros(log_prob.shape, np.int32)
        none = np.zeros_like(log_prob)
        return cls(theta, log_prob, none, counts.astype(bool), counts, none)

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Draws:
        """The draws from a file; before version 0.2 there were no energies."""
        unknown = {"energy": np.full_like(arrays["log_prob"], np.nan)}
        return cls(*({**unknown, **arrays}[name] for name in cls._fields))

    def statistics(self) -> dict[str, tf.Tensor]:
        """All but theta, by ArviZ's names; the energy where the kernel knows it."""
        names = ("lp", "acceptance_rate", "diverging", "n_steps", "energy")
        known = dict(zip(names, self[1:], strict=True))
        return known if np.isfinite(self.energy).all() else {n: known[n] for n in names[:-1]}


class Result(NamedTuple):
    """The result of a run.

    draws: the samples, and what came with them.
    step_size: the step size of each chain, shape (C,).
    initial: what chains were asked to start at, or the points drawn where that is a posterior.
    """

    draws: Draws
    step_size: np.ndarray
    initial: Any


class Stepper:
    """Steps of chains on one replica, as functions that can be compiled.

    Steps are numbered from 0, through warm-up and sampling. The noise of a step is that of its
    number: the same steps in other calls are the same steps.

    Args:
        target: theta (C, D) to its log density (C,).
        kernel: the transition.
        adaptation: its tuning, by the first steps.
        block: B, the most samples of a call.
    """

    def __init__(
        self, target: Density, kernel: Kernel, adaptation: Adaptation, *, block: int
    ) -> None:
        self.target = target
        self.kernel = kernel
        self.adaptation = adaptation
        self.block = block

    def start(self, key: tf.Tensor, theta: tf.Tensor) -> Position:
        """The position of chains at theta, (C, D), with the noise of `key`, (1,)."""
        state = self.kernel.init(self.target, theta, random.halves(random.fold_in(key[0], -1)))
        return Position(key, state, self.adaptation.init(theta))

    def run(
        self, position: Position, first: tf.Tensor, count: tf.Tensor, every: tf.Tensor
    ) -> tuple[Position, Draws]:
        """`count` samples of `every` steps each, from step number `first`.

        B samples are returned; the others are void.
        """

        def sample(b: tf.Tensor, position: Position, arrays: Draws) -> tuple[Any, ...]:
            position, info = self._steps(position, first + b * every, every)
            kept = Draws(position.state.theta, position.state.log_prob, *info)
            arrays = Draws(*(a.write(b, value) for a, value in zip(arrays, kept, strict=True)))
            return b + 1, position, arrays

        dtype = position.state.theta.dtype
        dtypes = (dtype, dtype, dtype, tf.bool, tf.int32, dtype)
        arrays = Draws(*(tf.TensorArray(dtype, self.block) for dtype in dtypes))
        _, position, arrays = tf.while_loop(
            lambda b, *_: b < count, sample, (tf.constant(0), position, arrays)
        )
        return position, Draws(*(array.stack() for array in arrays))

    def _steps(
        self, position: Position, first: tf.Tensor, count: tf.Tensor
    ) -> tuple[Position, Info]:
        """`count` steps, and their summary."""

        def step(i: tf.Tensor, position: Position, so_far: Info) -> tuple[Any, ...]:
            key, state, tuning = position
            noise = random.halves(random.fold_in(key[0], i))
            after, info = self.kernel.step(self.target, state, noise, *tuning[:2])
            state = self.adaptation.tested(i, noise, state, after, info.accept_prob)
            tuning = self.adaptation.update(tuning, i, state.theta, info.accept_prob)
            summed = Info(
                so_far.accept_prob + info.accept_prob,
                so_far.diverging | info.diverging,
                so_far.num_gradients + info.num_gradients,
                info.energy,
            )
            return i + 1, Position(key, state, tuning), summed

        nothing = Info.of(tf.zeros_like(position.state.log_prob) - float("inf"))
        _, position, info = tf.while_loop(
            lambda i, *_: i < first + count, step, (first, position, nothing)
        )
        mean = info.accept_prob / tf.cast(count, info.accept_prob.dtype)
        return position, info._replace(accept_prob=mean)
