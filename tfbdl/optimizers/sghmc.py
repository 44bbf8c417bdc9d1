"""Stochastic-gradient Hamiltonian Monte Carlo (Chen, Fox, Guestrin 2014)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.optimizers.schedules import LearningRateSchedule

from tfbdl.arguments import number
from tfbdl.inherited_arguments import OptimizerArguments, Unpack
from tfbdl.keras_private_training import schedule_of
from tfbdl.optimizers.base import SamplingOptimizer
from tfbdl.priors import Prior


@keras.saving.register_keras_serializable(package="tfbdl")
class SGHMC(SamplingOptimizer):
    """v <- momentum v - lr grad U + sqrt(2 (1 - momentum) lr T / N) e; w <- w + v, e ~ N(0, 1).

    This is equation 15 of Chen et al. 2014, with alpha = 1 - momentum, eta = lr / N, and no
    estimate of the gradient's noise (beta = 0). At temperature 0 it is SGD with momentum.

    Args:
        learning_rate: as in `SamplingOptimizer`.
        momentum: in [0, 1).
        num_data: as in `SamplingOptimizer`.
        temperature: as in `SamplingOptimizer`.
        prior: as in `SamplingOptimizer`.
        seed: as in `SamplingOptimizer`.
        **kwargs: arguments of `keras.optimizers.Optimizer`, as in `SamplingOptimizer`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    def __init__(
        self,
        learning_rate: Any = 1e-3,
        *,
        momentum: float = 0.9,
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
        self.momentum = number("momentum", momentum, lambda m: 0 <= m < 1, "in [0, 1)")

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Makes the velocities."""
        if self.built:
            return
        super().build(variables)
        self._velocities = self.add_optimizer_variables(variables, "velocity")

    def update_step(
        self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor
    ) -> None:
        self.adapt(gradient, variable)
        lr = tf.cast(learning_rate, variable.dtype) * self.inverse_mass(variable)
        velocity = self._velocities[self._get_variable_index(variable)]
        stddev = tf.sqrt(2.0 * (1.0 - self.momentum) * lr * self.heat(variable.dtype))
        push = stddev * self.noise(variable) - lr * self.slope(gradient, variable)
        self.assign(velocity, self.momentum * velocity + push)
        self.assign_add(variable, velocity)

    def adapt(self, gradient: tf.Tensor, variable: keras.Variable) -> None:
        """Adapts the mass of a variable; here it stays."""

    def inverse_mass(self, variable: keras.Variable) -> tf.Tensor:
        """The factor of a variable's learning rate."""
        return tf.ones((), variable.dtype)

    def kinetic_temperatures(self) -> dict[str, float]:
        """The temperature that the velocities have now, by the path of each variable.

        The mean of v^2 N (1 + momentum) / (2 lr) over the elements, lr being that of the last step.
        It is `temperature` where the chain samples its target, give or take a share of
        sqrt(2 / elements); more says that the learning rate is too large, or the gradients of
        batches too noisy for it (Wenzel et al. 2020, "How good is the Bayes posterior in deep
        neural networks really?", section 4). Velocities remember some 1 / (1 - momentum) steps:
        where a schedule comes near 0 they are those of larger rates.

        Raises:
            ValueError: before the first step.
        """
        if not self.built or not int(self.iterations):
            raise ValueError(f"{self.name} has no velocities before its first step; train with it")
        factor = self.num_data * (1.0 + self.momentum) / (2.0 * self._last_rate())
        temperatures = {}
        for variable, velocity in zip(self._trainable_variables, self._velocities, strict=True):
            squared = np.square(velocity.numpy(), dtype=np.float64).mean()
            temperatures[variable.path] = float(
                factor * squared / float(self.inverse_mass(variable))
            )
        return temperatures

    def _last_rate(self) -> float:
        """The learning rate of the last step; `learning_rate` is that of the next."""
        schedule = schedule_of(self)
        if not isinstance(schedule, LearningRateSchedule):
            return float(self.learning_rate)
        batches = int(self.iterations) * (self.gradient_accumulation_steps or 1)
        return float(schedule(batches - 1))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "momentum": self.momentum}
