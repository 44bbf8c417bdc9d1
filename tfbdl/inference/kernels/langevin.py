"""Langevin dynamics with and without the Metropolis test (Roberts and Tweedie 1996)."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from tfbdl.inference.kernels.base import Adaptive, Density, Info, State
from tfbdl.inference.kernels.hmc import energy_error, leapfrog
from tfbdl.inference.kernels.metropolis import acceptance, metropolis
from tfbdl.inference.kernels.noise import Noise


@dataclass(frozen=True, kw_only=True)
class MALA(Adaptive):
    """The Metropolis-adjusted Langevin algorithm: HMC with one leapfrog step.

    The proposal is theta + step_size^2 / 2 * gradient + step_size * N(0, I).

    Args:
        step_size: see `Adaptive`.
        target_accept: by default 0.574, the best in many dimensions (Roberts and Rosenthal 1998).
        mass_matrix: see `Adaptive`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    target_accept: float = 0.574

    def step(
        self, density: Density, state: State, noise: Noise, step_size: tf.Tensor, scale: tf.Tensor
    ) -> tuple[State, Info]:
        proposal, error = _propose(density, state, noise.fold_in(0), step_size, scale)
        state, accept_prob = metropolis(noise.fold_in(1), state, proposal, error)
        return state, _info(accept_prob)


@dataclass(frozen=True, kw_only=True)
class Langevin(Adaptive):
    """The unadjusted Langevin algorithm: the proposals of `MALA`, all accepted.

    It samples from the density only in the limit of small steps: on N(0, s^2) it has the variance
    s^2 / (1 - step_size^2 / (4 s^2)). The acceptance that is reported is the one that `MALA` would
    have; the nearer to 1, the smaller the error.

    Args:
        step_size: see `Adaptive`.
        target_accept: that of `MALA` at which the adaptation aims, by default 0.95.
        mass_matrix: see `Adaptive`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    target_accept: float = 0.95

    def step(
        self, density: Density, state: State, noise: Noise, step_size: tf.Tensor, scale: tf.Tensor
    ) -> tuple[State, Info]:
        proposal, error = _propose(density, state, noise.fold_in(0), step_size, scale)
        return proposal, _info(acceptance(error))


def _propose(
    density: Density, state: State, noise: Noise, step_size: tf.Tensor, scale: tf.Tensor
) -> tuple[State, tf.Tensor]:
    """The proposal, and its energy error."""
    z = noise.normal(state.theta.shape[1], state.theta.dtype)
    proposal, end = leapfrog(density, state, z, step_size[:, None] * scale)
    return proposal, energy_error(state, z, proposal, end)


def _info(accept_prob: tf.Tensor) -> Info:
    return Info(
        accept_prob,
        tf.zeros_like(accept_prob, tf.bool),
        tf.ones_like(accept_prob, tf.int32),
    )
