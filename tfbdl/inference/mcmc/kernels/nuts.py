"""The no-U-turn sampler, whose trajectories find their own lengths.

Hoffman and Gelman (2014, "The No-U-Turn sampler"), with states drawn from a trajectory by
multinomial weights (Betancourt 2017, "A conceptual introduction to Hamiltonian Monte Carlo",
appendix A.3), as `tfp.mcmc.NoUTurnSampler` has it.
"""

from __future__ import annotations

from dataclasses import dataclass

import keras
import tensorflow as tf

from tfbdl.arguments import positive_integer
from tfbdl.inference.density import Density
from tfbdl.inference.mcmc.kernels.base import DIVERGENCE, Adaptive, Info, State, one_step
from tfbdl.probability import tfp


@keras.saving.register_keras_serializable(package="tfbdl.kernels")
@dataclass(frozen=True, kw_only=True)
class NUTS(Adaptive):
    """Trajectories that are doubled, to either side at random, until they turn back.

    Args:
        max_tree_depth: a trajectory has at most 2^max_tree_depth - 1 leapfrog steps; at most 20.
        step_size: see `Adaptive`.
        target_accept: see `Adaptive`; the acceptance is its mean over a trajectory.
        mass_matrix: see `Adaptive`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    max_tree_depth: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_integer("max_tree_depth", self.max_tree_depth, most=20)

    def step(
        self, target: Density, state: State, seed: tf.Tensor, step_size: tf.Tensor, scale: tf.Tensor
    ) -> tuple[State, Info]:
        kernel = tfp.mcmc.NoUTurnSampler(
            target, step_size[:, None] * scale, self.max_tree_depth, max_energy_diff=DIVERGENCE
        )
        state, results = one_step(kernel, state, seed)
        return state, Info.of(
            results.log_accept_ratio,
            results.leapfrogs_taken,
            results.has_divergence,
            -results.energy,
        )
