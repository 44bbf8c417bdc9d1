"""The Metropolis-adjusted microcanonical sampler (Robnik, Cohn-Gordon, Seljak 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import keras
import tensorflow as tf

from tfbdl.inference.density import Density
from tfbdl.inference.mcmc.kernels.base import DIVERGENCE, Info, State, by_chain
from tfbdl.inference.mcmc.kernels.hmc import HMC
from tfbdl.inference.mcmc.kernels.isokinetic import (
    GRADIENTS,
    Moving,
    any_direction,
    integrate,
    needs_two_weights,
)
from tfbdl.probability import tfp


@keras.saving.register_keras_serializable(package="tfbdl.kernels")
@dataclass(frozen=True, kw_only=True)
class MAMS(HMC):
    """Trajectories of isokinetic dynamics, ended by a Metropolis test.

    It works as `HMC` does, but a point moves at one speed, whatever its energy, so that a few
    directions that are stiff do not set the pace: it takes fewer gradients where scales differ, and
    in high dimensions. An integration step takes two gradients and is longer than a leapfrog step.
    The target must have at least two weights.

    Args:
        trajectory_length: see `HMC`.
        jitter: see `HMC`.
        max_leapfrog_steps: see `HMC`; each of these steps takes two gradients.
        step_size: see `Adaptive`.
        target_accept: see `Adaptive`; by default 0.9, near the best for these dynamics (Robnik et
            al. 2025, section 5).
        mass_matrix: see `Adaptive`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    best_accept: ClassVar[float] = 0.9

    def init(self, target: Density, theta: tf.Tensor, seed: tf.Tensor) -> State:
        needs_two_weights(self, theta)
        return super().init(target, theta, seed)

    def step(
        self, target: Density, state: State, seed: tf.Tensor, step_size: tf.Tensor, scale: tf.Tensor
    ) -> tuple[State, Info]:
        of_length, of_direction, of_test = tfp.random.split_seed(seed, 3)
        num_steps = self.num_leapfrog_steps(of_length, step_size)
        start = Moving.of(state, any_direction(of_direction, state.theta))

        def move(i: tf.Tensor, moving: Moving, error: tf.Tensor) -> tuple[tf.Tensor, ...]:
            moving, more = integrate(target, moving, step_size, scale)
            return i + 1, moving, error + more

        _, end, error = tf.while_loop(
            lambda i, *_: i < num_steps, move, (0, start, tf.zeros_like(state.log_prob))
        )
        log_ratio = tf.where(tf.math.is_finite(error), -error, -float("inf"))
        info = Info.of(log_ratio, GRADIENTS * num_steps, diverging=log_ratio < -DIVERGENCE)
        u = tf.random.stateless_uniform(log_ratio.shape, of_test, dtype=log_ratio.dtype)
        taken = u < info.accept_prob
        return by_chain(taken, State(*end[:3]), state), info
