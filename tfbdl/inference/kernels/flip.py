"""Metropolis flips of binary weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfbdl.arguments import positive_integer
from tfbdl.inference.kernels.base import Density, Info, Kernel, State
from tfbdl.inference.kernels.noise import Noise
from tfbdl.inference.kernels.random_walk import without_gradients


@dataclass(frozen=True, kw_only=True)
class Flip(Kernel):
    """Turns a few weights, drawn uniformly, from one of their two values to the other.

    For weights under the prior `tfbdl.priors.Bernoulli`. A weight drawn twice turns twice.

    Args:
        num_flips: weights drawn a step.
        values: (low, high), by default those of the prior.

    Raises:
        ValueError: if an argument is out of its range.
    """

    num_flips: int = 1
    values: Sequence[float] | None = None

    uses_gradients: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive_integer("num_flips", self.num_flips)
        if self.values is not None and (len(self.values) != 2 or len(set(self.values)) != 2):
            raise ValueError(f"values={self.values!r} must be two different numbers")

    def step(
        self, density: Density, state: State, noise: Noise, step_size: tf.Tensor, scale: tf.Tensor
    ) -> tuple[State, Info]:
        assert self.values is not None
        low, high = (tf.constant(value, state.theta.dtype) for value in self.values)
        size = state.theta.shape[1]
        drawn = tf.cast(noise.fold_in(0).uniform(self.num_flips, tf.float64) * size, tf.int32)
        turns = tf.reduce_sum(tf.one_hot(drawn, size, dtype=tf.int32), axis=1)
        turned = tf.where(state.theta == low, high, low)
        proposal = self.init(density, tf.where(turns % 2 == 1, turned, state.theta))
        return without_gradients(noise.fold_in(1), state, proposal)
