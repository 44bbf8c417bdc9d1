"""Hamiltonian Monte Carlo (Neal 2011, "MCMC using Hamiltonian dynamics", section 3.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import tensorflow as tf

from tfbdl.arguments import number, positive_integer
from tfbdl.inference.kernels.base import (
    Adaptive,
    Density,
    Info,
    State,
    positive,
    value_and_gradient,
)
from tfbdl.inference.kernels.metropolis import finite_or_infinite, metropolis
from tfbdl.inference.kernels.noise import Noise

QUARTER_PERIOD = math.pi / 2

DIVERGENCE = 1000.0
"""The energy error, in nats, beyond which a trajectory counts as divergent (as in Stan)."""


@dataclass(frozen=True, kw_only=True)
class HMC(Adaptive):
    """Trajectories of a given length, ended by a Metropolis test.

    A trajectory takes ceil(length / step size) leapfrog steps. The length is multiplied by a
    number from U(1 - jitter, 1 + jitter), drawn anew each step and the same for all chains,
    because trajectories of one length never leave a normal direction whose period divides it
    (Neal 2011, section 3.2).

    Args:
        trajectory_length: by default pi / 2 times the standard deviation of the prior, if one
            normal prior governs all weights: it carries a weight that the data say nothing of
            through a quarter of its period, to an independent draw (Izmailov et al. 2021, "What
            are Bayesian neural network posteriors really like?", section 4.3). With any other
            prior, and under `mass_matrix="diagonal"`, whose units are standard deviations, pi / 2.
        jitter: in [0, 1); 0 for trajectories of one length.
        max_leapfrog_steps: which bounds a trajectory whatever its step size.
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

    def step(
        self, density: Density, state: State, noise: Noise, step_size: tf.Tensor, scale: tf.Tensor
    ) -> tuple[State, Info]:
        size, dtype = state.theta.shape[1], state.theta.dtype
        z = noise.fold_in(0).normal(size, dtype)
        num_steps = self._num_steps(noise.fold_in(1).shared_uniform(dtype), step_size)
        proposal, end = trajectory(density, state, z, step_size[:, None] * scale, num_steps)
        error = energy_error(state, z, proposal, end)
        state, accept_prob = metropolis(noise.fold_in(2), state, proposal, error)
        return state, Info(accept_prob, error > DIVERGENCE, num_steps)

    def _num_steps(self, uniform: tf.Tensor, step_size: tf.Tensor) -> tf.Tensor:
        """How many leapfrog steps each chain takes, shape (C,)."""
        length = self.trajectory_length or QUARTER_PERIOD
        length = length * (1.0 + self.jitter * (2.0 * uniform - 1.0))
        steps = tf.math.ceil(length / step_size)
        return tf.cast(tf.clip_by_value(steps, 1.0, self.max_leapfrog_steps), tf.int32)


def leapfrog(
    density: Density, state: State, z: tf.Tensor, step: tf.Tensor
) -> tuple[State, tf.Tensor]:
    """One leapfrog step, of one gradient; `step` broadcasts against theta, (C, D)."""
    z = z + 0.5 * step * state.gradient
    theta = state.theta + step * z
    log_prob, gradient = value_and_gradient(density, theta)
    return State(theta, log_prob, gradient), z + 0.5 * step * gradient


def trajectory(
    density: Density, state: State, z: tf.Tensor, step: tf.Tensor, num_steps: tf.Tensor
) -> tuple[State, tf.Tensor]:
    """`num_steps` leapfrog steps, shape (C,); chains that have done theirs stand still."""

    def move(i: tf.Tensor, state: State, z: tf.Tensor) -> tuple[tf.Tensor, State, tf.Tensor]:
        moving = tf.cast(i < num_steps, step.dtype)[:, None]
        return (i + 1, *leapfrog(density, state, z, moving * step))

    longest = tf.reduce_max(num_steps)
    start = (tf.constant(0), state, z)
    _, state, z = tf.while_loop(lambda i, *_: i < longest, move, start)
    return state, z


def energy_error(start: State, z_start: tf.Tensor, end: State, z_end: tf.Tensor) -> tf.Tensor:
    """H(end) - H(start) in nats, shape (C,); +inf where it is not finite."""
    kinetic = 0.5 * tf.reduce_sum((z_end - z_start) * (z_end + z_start), axis=1)
    return finite_or_infinite(kinetic - (end.log_prob - start.log_prob))
