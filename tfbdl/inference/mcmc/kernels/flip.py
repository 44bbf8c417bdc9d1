"""Metropolis flips of binary weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import LARGEST_SCALE, positive_integer, shown
from tfbdl.inference.density import Density
from tfbdl.inference.mcmc.kernels.base import Info, Kernel, State, one_step
from tfbdl.memory import require
from tfbdl.priors import Bernoulli, Prior
from tfbdl.probability import tfp


@keras.saving.register_keras_serializable(package="tfbdl.kernels")
@dataclass(frozen=True, kw_only=True)
class Flip(Kernel):
    """Turns a few weights, drawn uniformly, from one of their two values to the other.

    It is for weights under the prior `tfbdl.priors.Bernoulli`. A weight drawn twice turns twice.

    Args:
        num_flips: weights drawn a step.
        values: (low, high), by default the values of the prior.

    Raises:
        ValueError: if an argument is out of its range.
    """

    num_flips: int = 1
    values: Sequence[float] | None = None

    uses_gradients: ClassVar[bool] = False

    def __post_init__(self) -> None:
        positive_integer("num_flips", self.num_flips)
        if self.values is not None and not _are_two_numbers(self.values):
            raise ValueError(f"values={shown(self.values)} must be two different numbers")

    def for_priors(self, priors: Sequence[Prior]) -> Flip:
        if self.values is not None:
            return self
        others = {type(p).__name__ for p in priors if not isinstance(p, Bernoulli)}
        if others or not priors:
            held = ", ".join(sorted(others)) or "a joint prior or a function"
            raise ValueError(
                f"kernel='flip' needs the prior Bernoulli for all weights, not {held}; or give "
                "kernel=Flip(values=...)"
            )
        values = {p.values for p in priors if isinstance(p, Bernoulli)}
        if len(values) > 1:
            raise ValueError(f"kernel='flip' needs the same values for all weights, not {values}")
        return replace(self, values=values.pop())

    def step(
        self, target: Density, state: State, seed: tf.Tensor, step_size: tf.Tensor, scale: tf.Tensor
    ) -> tuple[State, Info]:
        kernel = tfp.mcmc.RandomWalkMetropolis(target, self._propose)
        state, results = one_step(kernel, state, seed)
        return state, Info.of(results.log_accept_ratio)

    def _propose(self, parts: list[tf.Tensor], seed: tf.Tensor) -> list[tf.Tensor]:
        assert self.values is not None
        (theta,) = parts
        num_chains, size = theta.shape
        require(8 * num_chains * self.num_flips * size, f"num_flips={self.num_flips}", "flip fewer")
        low, high = (tf.constant(value, theta.dtype) for value in self.values)
        drawn = tf.random.stateless_uniform(
            [num_chains, self.num_flips], seed, maxval=size, dtype=tf.int32
        )
        turns = tf.reduce_sum(tf.one_hot(drawn, size, dtype=tf.int32), axis=1)
        return [tf.where(turns % 2 == 1, tf.where(theta == low, high, low), theta)]


def _are_two_numbers(values: Any) -> bool:
    """Whether they are two different finite numbers."""
    is_pair = isinstance(values, (list, tuple, np.ndarray)) and len(values) == 2
    return (
        is_pair
        and all(isinstance(v, (int, float, np.number)) and abs(v) <= LARGEST_SCALE for v in values)
        and values[0] != values[1]
    )
