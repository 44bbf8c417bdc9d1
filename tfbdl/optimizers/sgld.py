"""Stochastic-gradient Langevin dynamics (Welling and Teh 2011)."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl.inherited_arguments import OptimizerArguments, Unpack
from tfbdl.optimizers.base import SamplingOptimizer
from tfbdl.priors import Prior


@keras.saving.register_keras_serializable(package="tfbdl")
class SGLD(SamplingOptimizer):
    """w <- w - lr grad U + sqrt(2 lr T / N) e, with e ~ N(0, 1).

    This is equation 4 of Welling and Teh 2011, with their step eps = 2 lr / N. It samples the
    posterior as lr goes to 0; at a finite lr, on a quadratic U with curvature a, the variance is
    (T / N) / (a (1 - lr a / 2)), and the noise of minibatches adds to it.

    Args:
        learning_rate: as in `SamplingOptimizer`.
        num_data: as in `SamplingOptimizer`.
        temperature: as in `SamplingOptimizer`.
        prior: as in `SamplingOptimizer`.
        seed: as in `SamplingOptimizer`.
        **kwargs: arguments of `keras.optimizers.Optimizer`, as in `SamplingOptimizer`.
    """

    def __init__(
        self,
        learning_rate: Any = 0.01,
        *,
        num_data: int,
        temperature: float = 1.0,
        prior: float | str | dict[str, Any] | Prior | None = None,
        seed: int | None = None,
        **kwargs: Unpack[OptimizerArguments],
    ) -> None:
        super().__init__(
            learning_rate,
            num_data=num_data,
            temperature=temperature,
            prior=prior,
            seed=seed,
            **kwargs,
        )

    def update_step(
        self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor
    ) -> None:
        lr = tf.cast(learning_rate, variable.dtype)
        noise = tf.sqrt(2.0 * lr * self.heat(variable.dtype)) * self.noise(variable)
        self.assign_add(variable, noise - lr * self.slope(gradient, variable))
