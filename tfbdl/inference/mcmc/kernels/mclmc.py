"""Microcanonical Langevin Monte Carlo (Robnik and Seljak 2024: fluctuation without dissipation)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import positive
from tfbdl.inference.density import Density
from tfbdl.inference.mcmc.kernels.base import Adaptive, Info, by_chain, seed_key
from tfbdl.inference.mcmc.kernels.hmc import length_scale
from tfbdl.inference.mcmc.kernels.isokinetic import (
    GRADIENTS,
    Moving,
    any_direction,
    integrate,
    needs_two_weights,
    unit,
)
from tfbdl.priors import Prior
from tfbdl.probability import tfp

LENIENCE = 8.0
"""Variances that an error may have in the test of warm-up, which then disturbs it little."""


@keras.saving.register_keras_serializable(package="tfbdl.kernels")
@dataclass(frozen=True, kw_only=True)
class MCLMC(Adaptive):
    """Isokinetic dynamics whose direction forgets itself little by little, without a test.

    Chains move on with every step, two gradients each; steps of a finite size leave a bias, which
    the variance of the energy's error per dimension bounds. The step size is adapted so that this
    variance becomes `energy_variance`. Thin the draws by the steps of a decoherence length. The
    target must have at least two weights.

    The acceptance that is reported is exp(-error^2 / (8 energy_variance D)), whose mean is 0.894
    where the error is normal and has that variance; while the step size is tuned, it is also the
    probability to go on, since steps that are too long would throw chains out for good.

    Args:
        decoherence_length: the length over which the direction is forgotten, in the units of
            `HMC`'s `trajectory_length`; by default, as there, the standard deviation of the prior,
            if one normal prior governs all weights, else 1.
        energy_variance: the variance of the energy's error in a step, per dimension, in nats^2; by
            default 5e-4, at which the bias is 1 to 2 % of a standard deviation in the paper's
            problems (section 5).
        step_size: see `Adaptive`.
        target_accept: see `Adaptive`; leave it where it is, and set `energy_variance`.
        mass_matrix: see `Adaptive`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    decoherence_length: float | None = None
    energy_variance: float = 5e-4

    best_accept: ClassVar[float] = 1.0 / math.sqrt(1.0 + 2.0 / LENIENCE)
    adjusted: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decoherence_length is not None:
            positive("decoherence_length", self.decoherence_length)
        positive("energy_variance", self.energy_variance)

    def for_priors(self, priors: Sequence[Prior]) -> MCLMC:
        super().for_priors(priors)
        if self.decoherence_length is not None:
            return self
        return replace(self, decoherence_length=length_scale(priors, self.mass_matrix))

    def init(self, target: Density, theta: tf.Tensor, seed: tf.Tensor) -> Moving:
        needs_two_weights(self, theta)
        return Moving.of(super().init(target, theta, seed), any_direction(seed, theta))

    def step(
        self,
        target: Density,
        state: Moving,
        seed: tf.Tensor,
        step_size: tf.Tensor,
        scale: tf.Tensor,
    ) -> tuple[Moving, Info]:
        before, behind = tfp.random.split_seed(seed)
        start = self._refreshed(state, before, step_size)
        end, error = integrate(target, start, step_size, scale)
        is_finite = tf.math.is_finite(error)
        end = by_chain(is_finite, end, start._replace(direction=-start.direction))
        size = state.theta.shape[-1]
        error = tf.where(is_finite, error, float("inf"))
        info = Info.of(
            -tf.square(error) / (LENIENCE * size * self.energy_variance), GRADIENTS, ~is_finite
        )
        return self._refreshed(end, behind, step_size), info

    def _refreshed(self, state: Moving, seed: tf.Tensor, step_size: tf.Tensor) -> Moving:
        """The state with the direction's noise of half a step."""
        size = state.theta.shape[-1]
        nu = tf.sqrt(tf.math.expm1(step_size / (self.decoherence_length or 1.0)) / size)
        noise = random.normal(seed_key(seed), state.theta.shape, state.theta.dtype)
        return state._replace(direction=unit(state.direction + nu[:, None] * noise))
