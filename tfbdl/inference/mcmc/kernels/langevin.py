"""Langevin dynamics with and without the Metropolis test (Roberts and Tweedie 1996).

Both are Hamiltonian Monte Carlo with one leapfrog step: theta + step_size^2 / 2 * gradient +
step_size * N(0, I) is proposed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import keras
import tensorflow as tf

from tfbdl.inference.density import Density
from tfbdl.inference.mcmc.kernels.base import Adaptive, Info, State, one_step
from tfbdl.inference.mcmc.kernels.hmc import energy_of
from tfbdl.probability import tfp


@keras.saving.register_keras_serializable(package="tfbdl.kernels")
@dataclass(frozen=True, kw_only=True)
class MALA(Adaptive):
    """The Metropolis-adjusted Langevin algorithm.

    The proposal is theta + step_size^2 / 2 * gradient + step_size * N(0, I).

    Args:
        step_size: see `Adaptive`.
        target_accept: the acceptance aimed at; 0.574 is the best in many dimensions (Roberts and
            Rosenthal 1998).
        mass_matrix: see `Adaptive`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    best_accept: ClassVar[float] = 0.574

    def step(
        self, target: Density, state: State, seed: tf.Tensor, step_size: tf.Tensor, scale: tf.Tensor
    ) -> tuple[State, Info]:
        kernel = tfp.mcmc.HamiltonianMonteCarlo(target, step_size[:, None] * scale, 1)
        state, results = one_step(kernel, state, seed)
        energy = energy_of(state, results)
        return state, Info.of(results.log_accept_ratio, num_gradients=1, energy=energy)


@keras.saving.register_keras_serializable(package="tfbdl.kernels")
@dataclass(frozen=True, kw_only=True)
class Langevin(Adaptive):
    """The unadjusted Langevin algorithm: the proposals of `MALA`, all accepted.

    It samples from the density only in the limit of small steps: on N(0, s^2) it has the variance
    s^2 / (1 - step_size^2 / (4 s^2)). The acceptance that is reported is the one that `MALA` would
    have; the nearer to 1, the smaller the error. While the step size is tuned chains move as those
    of `MALA`, since steps that are too long would throw them out for good.

    Args:
        step_size: see `Adaptive`.
        target_accept: the acceptance of `MALA` that the adaptation aims at, by default 0.95.
        mass_matrix: see `Adaptive`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    best_accept: ClassVar[float] = 0.95

    adjusted: ClassVar[bool] = False

    def step(
        self, target: Density, state: State, seed: tf.Tensor, step_size: tf.Tensor, scale: tf.Tensor
    ) -> tuple[State, Info]:
        kernel = tfp.mcmc.UncalibratedHamiltonianMonteCarlo(target, step_size[:, None] * scale, 1)
        after, results = one_step(kernel, state, seed)
        log_ratio = after.log_prob - state.log_prob + results.log_acceptance_correction
        log_ratio = tf.where(tf.math.is_finite(log_ratio), log_ratio, log_ratio.dtype.min)
        return after, Info.of(log_ratio, num_gradients=1)
