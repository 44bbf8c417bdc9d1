"""Hamiltonian Monte Carlo whose trajectory length is learned over chains.

Hoffman, Radul, Sountsov (2021, "An adaptive MCMC scheme for setting trajectory lengths in
Hamiltonian Monte Carlo"): the length T climbs the change in the estimator of the expected square,

    ChEES = E[(|z' - m'|^2 - |z - m|^2)^2] / 4,

over the chains' states z before and z' after a trajectory, in units of the metric, m and m' their
means over chains.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import keras
import tensorflow as tf

from tfbdl.arguments import integer, number, positive, positive_integer
from tfbdl.inference.density import Density
from tfbdl.inference.mcmc.kernels.base import DIVERGENCE, Adaptive, Info, State, one_step
from tfbdl.inference.mcmc.kernels.hmc import energy_of
from tfbdl.probability import tfp

FORGETTING = 0.05
"""Share of the last square in the mean of squared gradients, 1 - beta_2 of Adam."""
LARGEST_CHANGE = 0.35
"""The most that log T changes in a step, about log(2) / 2."""


class Learning(NamedTuple):
    """The state of the chains, and what is learned, the same in all of them: (C,) each.

    length: T. average: the mean of log T. square: the mean squared gradient. count: steps so far.
    """

    theta: tf.Tensor
    log_prob: tf.Tensor
    gradient: tf.Tensor
    length: tf.Tensor
    average: tf.Tensor
    square: tf.Tensor
    count: tf.Tensor


@keras.saving.register_keras_serializable(package="tfbdl.kernels")
@dataclass(frozen=True, kw_only=True)
class ChEES(Adaptive):
    """Trajectories of one length for all chains, which warm-up learns from what they gain by it.

    A trajectory takes ceil(u T / step size) leapfrog steps, with u uniform on (0, 1) and T learned:
    long enough for directions that are wide, no longer. Chains move in lockstep, so that many of
    them (the paper has 16 and more) cost little more than one; a NUTS of many chains waits in each
    step for the longest tree. It needs two chains at least.

    Args:
        trajectory_length: the T that it begins with. Begin short: far beyond a period of all
            directions the criterion has no slope to follow.
        max_leapfrog_steps: the bound of a trajectory whatever its step size.
        num_adaptation: the number of steps in which T is learned; by default those of warm-up.
        learning_rate: the learning rate of Adam on log T, about its change in a step.
        step_size: see `Adaptive`.
        target_accept: see `Adaptive`; by default 0.651, as in the paper.
        mass_matrix: see `Adaptive`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    trajectory_length: float = 0.1
    max_leapfrog_steps: int = 1000
    num_adaptation: int | None = None
    learning_rate: float = 0.025

    best_accept: ClassVar[float] = 0.651

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("trajectory_length", self.trajectory_length)
        positive_integer("max_leapfrog_steps", self.max_leapfrog_steps)
        if self.num_adaptation is not None:
            integer("num_adaptation", self.num_adaptation, least=0)
        number("learning_rate", self.learning_rate, lambda r: 0 < r < 1, "in (0, 1)")

    def for_warmup(self, num_warmup: int) -> ChEES:
        if self.num_adaptation is not None:
            return self
        return replace(self, num_adaptation=num_warmup)

    def init(self, target: Density, theta: tf.Tensor, seed: tf.Tensor) -> Learning:
        if theta.shape[0] < 2:
            raise ValueError(
                "kernel=ChEES learns from differences between chains; take num_chains=2 or more, "
                "or HMC"
            )
        state = super().init(target, theta, seed)
        zeros = tf.zeros_like(state.log_prob)
        length = zeros + self.trajectory_length
        learned = length, tf.math.log(length), zeros, zeros
        return Learning(state.theta, state.log_prob, state.gradient, *learned)

    def step(
        self,
        target: Density,
        state: Learning,
        seed: tf.Tensor,
        step_size: tf.Tensor,
        scale: tf.Tensor,
    ) -> tuple[Learning, Info]:
        of_length, seed = tfp.random.split_seed(seed)
        u = tf.random.stateless_uniform([], of_length, dtype=step_size.dtype)
        steps = tf.math.ceil(u * state.length[0] / tf.reduce_min(step_size))
        num_steps = tf.cast(tf.clip_by_value(steps, 1.0, self.max_leapfrog_steps), tf.int32)
        kernel = tfp.mcmc.HamiltonianMonteCarlo(target, step_size[:, None] * scale, num_steps)
        after, results = one_step(kernel, State(*state[:3]), seed)
        log_ratio = results.log_accept_ratio
        info = Info.of(log_ratio, num_steps, log_ratio < -DIVERGENCE, energy_of(after, results))
        (momentum,) = tf.nest.flatten(results.proposed_results.final_momentum)
        (proposed,) = tf.nest.flatten(results.proposed_state)
        slope = u * _slope(state.theta / scale, proposed / scale, momentum, info.accept_prob)
        learned = self._learned(state, slope, tf.reduce_min(step_size))
        return Learning(*after[:3], *learned), info

    def _learned(
        self, state: Learning, slope: tf.Tensor, step_size: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        """T, its average, the squared gradient and the count after one step more."""
        last = tf.cast(self.num_adaptation or 0, slope.dtype)
        count = state.count + 1.0
        square = (1.0 - FORGETTING) * state.square + FORGETTING * slope**2
        unbiased = square / (1.0 - (1.0 - FORGETTING) ** count)
        change = self.learning_rate * slope / tf.sqrt(unbiased + 1e-20)
        log_length = tf.math.log(state.length)
        log_length += tf.clip_by_value(change, -LARGEST_CHANGE, LARGEST_CHANGE)
        bound = tf.math.log(step_size * tf.cast(self.max_leapfrog_steps, slope.dtype))
        log_length = tf.clip_by_value(log_length, tf.math.log(step_size), bound)
        average = state.average + (log_length - state.average) / tf.sqrt(count)
        length = tf.exp(tf.where(count < last, log_length, average))
        learns = count <= last
        pairs = zip((length, average, square), state[3:6], strict=True)
        return *(tf.where(learns, new, old) for new, old in pairs), count


def _slope(
    before: tf.Tensor, after: tf.Tensor, velocity: tf.Tensor, accept_prob: tf.Tensor
) -> tf.Tensor:
    """D ChEES / d T, the mean over chains weighted by their acceptance; shape ().

    Args:
        before: states, shape (C, D), in units of the metric.
        after: the states that are proposed.
        velocity: how the chains move on there.
        accept_prob: shape (C,).
    """
    weight = tf.where(accept_prob > 1e-4, accept_prob, 0.0)
    safe = tf.where(weight[:, tf.newaxis] > 0, after, before)
    share = weight / (tf.reduce_sum(weight) + 1e-20)
    from_mean = safe - tf.reduce_sum(share[:, tf.newaxis] * safe, axis=0)
    squares = tf.reduce_sum(from_mean**2, axis=1)
    change = squares - tf.reduce_sum((before - tf.reduce_mean(before, axis=0)) ** 2, axis=1)
    slopes = change * tf.reduce_sum(from_mean * velocity, axis=1)
    return tf.reduce_sum(tf.where((weight > 0) & tf.math.is_finite(slopes), share * slopes, 0.0))
