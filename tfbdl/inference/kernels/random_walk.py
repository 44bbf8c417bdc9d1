"""Random-walk Metropolis (Metropolis et al. 1953), the slides' Metropolis-Hastings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfbdl.inference.kernels.base import Adaptive, Density, Info, State
from tfbdl.inference.kernels.metropolis import finite_or_infinite, metropolis
from tfbdl.inference.kernels.noise import Noise


@dataclass(frozen=True, kw_only=True)
class RandomWalk(Adaptive):
    """The proposal is theta + step_size * N(0, I), its gradient is not needed.

    Args:
        step_size: see `Adaptive`.
        target_accept: by default 0.234, the best in many dimensions (Roberts et al. 1997).
        mass_matrix: see `Adaptive`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    target_accept: float = 0.234

    uses_gradients: ClassVar[bool] = False

    def first_step_size(self, size: int) -> float:
        return 2.38 / math.sqrt(size)

    def step(
        self, density: Density, state: State, noise: Noise, step_size: tf.Tensor, scale: tf.Tensor
    ) -> tuple[State, Info]:
        z = noise.fold_in(0).normal(state.theta.shape[1], state.theta.dtype)
        proposal = self.init(density, state.theta + step_size[:, None] * scale * z)
        return without_gradients(noise.fold_in(1), state, proposal)


def without_gradients(noise: Noise, state: State, proposal: State) -> tuple[State, Info]:
    """The Metropolis test of a symmetric proposal."""
    error = finite_or_infinite(state.log_prob - proposal.log_prob)
    state, accept_prob = metropolis(noise, state, proposal, error)
    diverging = tf.zeros_like(accept_prob, tf.bool)
    return state, Info(accept_prob, diverging, tf.zeros_like(accept_prob, tf.int32))
