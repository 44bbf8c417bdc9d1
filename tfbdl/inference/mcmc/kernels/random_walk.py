"""Random-walk Metropolis (Metropolis et al. 1953), the slides' Metropolis-Hastings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import keras
import tensorflow as tf

from tfbdl.inference.density import Density
from tfbdl.inference.mcmc.kernels.base import Adaptive, Info, State, one_step
from tfbdl.probability import tfp


@keras.saving.register_keras_serializable(package="tfbdl.kernels")
@dataclass(frozen=True, kw_only=True)
class RandomWalk(Adaptive):
    """Metropolis' random walk: it proposes theta + step_size * N(0, I), and needs no gradients.

    Args:
        step_size: see `Adaptive`.
        target_accept: the acceptance aimed at; 0.234 is the best in many dimensions (Roberts et al.
            1997).
        mass_matrix: see `Adaptive`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    best_accept: ClassVar[float] = 0.234

    uses_gradients: ClassVar[bool] = False

    def first_step_size(self, size: int) -> float:
        return 2.38 / math.sqrt(size)

    def step(
        self, target: Density, state: State, seed: tf.Tensor, step_size: tf.Tensor, scale: tf.Tensor
    ) -> tuple[State, Info]:
        proposal = tfp.mcmc.random_walk_normal_fn(step_size[:, None] * scale)
        kernel = tfp.mcmc.RandomWalkMetropolis(target, proposal)
        state, results = one_step(kernel, state, seed)
        return state, Info.of(results.log_accept_ratio)
