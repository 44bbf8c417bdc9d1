"""Hamiltonian Monte Carlo (Neal 2011, "MCMC using Hamiltonian dynamics", section 3.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import number, positive, positive_integer
from tfbdl.inference.density import Density
from tfbdl.inference.mcmc.kernels.base import DIVERGENCE, Adaptive, Info, State, one_step
from tfbdl.priors import Normal, Prior
from tfbdl.probability import tfp

QUARTER_PERIOD = math.pi / 2


@keras.saving.register_keras_serializable(package="tfbdl.kernels")
@dataclass(frozen=True, kw_only=True)
class HMC(Adaptive):
    """Trajectories of a given length, ended by a Metropolis test.

    A trajectory takes ceil(length / step size) leapfrog steps. Chains move in lockstep: all take as
    many as the one with the smallest steps, and those with larger steps go further. The length is
    multiplied by a number from U(1 - jitter, 1 + jitter), drawn anew each step, because
    trajectories of one length never leave a normal direction whose period divides it (Neal 2011,
    section 3.2).

    Args:
        trajectory_length: the length; by default pi / 2 times the standard deviation of the prior,
            if one normal prior governs all weights: it carries a weight that the data say nothing
            of through a quarter of its period, to an independent draw (Izmailov et al. 2021, "What
            are Bayesian neural network posteriors really like?", section 4.3). With any other
            prior, and under `mass_matrix="diagonal"`, whose units are standard deviations, it is
            pi / 2.
        jitter: in [0, 1); 0 for trajectories of one length.
        max_leapfrog_steps: the bound of a trajectory whatever its step size.
        step_size: see `Adaptive`.
        target_accept: see `Adaptive`.
        mass_matrix: see `Adaptive`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    trajectory_length: float | None = None
    jitter: float = 0.5
    max_leapfrog_steps: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trajectory_length is not None:
            positive("trajectory_length", self.trajectory_length)
        number("jitter", self.jitter, lambda j: 0 <= j < 1, "in [0, 1)")
        positive_integer("max_leapfrog_steps", self.max_leapfrog_steps)

    def for_priors(self, priors: Sequence[Prior]) -> HMC:
        super().for_priors(priors)
        if self.trajectory_length is not None:
            return self
        length = QUARTER_PERIOD * length_scale(priors, self.mass_matrix)
        return replace(self, trajectory_length=length)

    def step(
        self, target: Density, state: State, seed: tf.Tensor, step_size: tf.Tensor, scale: tf.Tensor
    ) -> tuple[State, Info]:
        of_length, seed = tfp.random.split_seed(seed)
        num_steps = self.num_leapfrog_steps(of_length, step_size)
        kernel = tfp.mcmc.HamiltonianMonteCarlo(target, step_size[:, None] * scale, num_steps)
        state, results = one_step(kernel, state, seed)
        log_ratio = results.log_accept_ratio
        diverging, energy = log_ratio < -DIVERGENCE, energy_of(state, results)
        return state, Info.of(log_ratio, num_steps, diverging, energy)

    def num_leapfrog_steps(self, seed: tf.Tensor, step_size: tf.Tensor) -> tf.Tensor:
        """The number of steps of one trajectory of all chains, with step sizes (C,); shape ()."""
        low, high = 1.0 - self.jitter, 1.0 + self.jitter
        length = tf.random.stateless_uniform([], seed, low, high, step_size.dtype)
        length *= self.trajectory_length or QUARTER_PERIOD
        steps = tf.math.ceil(length / tf.reduce_min(step_size))
        return tf.cast(tf.clip_by_value(steps, 1.0, self.max_leapfrog_steps), tf.int32)


def energy_of(state: State, results: Any) -> tf.Tensor:
    """The energy of the state after a Metropolis test, with the momentum that led there, (C,)."""
    ends = results.proposed_results
    (start,), (end,) = tf.nest.flatten(ends.initial_momentum), tf.nest.flatten(ends.final_momentum)
    momentum = tf.where(results.is_accepted[:, tf.newaxis], end, start)
    return 0.5 * tf.reduce_sum(momentum**2, axis=1) - state.log_prob


def length_scale(priors: Sequence[Prior], mass_matrix: str) -> float:
    """The standard deviation of the normal prior, where all normal priors are one, else 1.

    It is 1 under a metric as well, whose units are standard deviations.
    """
    if mass_matrix == "diagonal":
        return 1.0
    normal = [p for p in priors if isinstance(p, Normal)]
    scales = {math.nan if p.by_fan_in else float(p.scale) for p in normal}
    scale = scales.pop() if len(scales) == 1 else math.nan
    return 1.0 if math.isnan(scale) else scale
