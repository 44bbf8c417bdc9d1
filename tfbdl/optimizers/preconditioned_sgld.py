"""Langevin dynamics with the steps of RMSprop (Li, Chen, Carlson, Carin 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import number, positive
from tfbdl.inherited_arguments import OptimizerArguments, Unpack
from tfbdl.optimizers.base import SamplingOptimizer
from tfbdl.priors import Prior


@keras.saving.register_keras_serializable(package="tfbdl")
class PreconditionedSGLD(SamplingOptimizer):
    """w <- w - lr G grad U + sqrt(2 lr G T / N) e, with G = 1 / (epsilon + sqrt(V)) of each weight.

    V is the running mean of the squared gradient of the loss (Li et al. 2016, algorithm 1). As
    there, the term of the gradient of G is left out: it vanishes as `rho` goes to 1.

    Args:
        learning_rate: as in `SamplingOptimizer`; that of RMSprop at temperature 0.
        rho: the decay of the running mean, in [0, 1).
        epsilon: > 0; the paper's lambda.
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
        rho: float = 0.99,
        epsilon: float = 1e-5,
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
        self.rho = number("rho", rho, lambda r: 0 <= r < 1, "in [0, 1)")
        self.epsilon = positive("epsilon", epsilon)

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Makes the running means."""
        if self.built:
            return
        super().build(variables)
        self._squares = self.add_optimizer_variables(variables, "squares")

    def update_step(
        self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor
    ) -> None:
        lr = tf.cast(learning_rate, variable.dtype)
        squares = self._squares[self._get_variable_index(variable)]
        squared = tf.square(tf.cast(gradient, variable.dtype))
        self.assign(squares, self.rho * squares + (1.0 - self.rho) * squared)
        lr_g = lr / (self.epsilon + tf.sqrt(tf.convert_to_tensor(squares)))
        noise = tf.sqrt(2.0 * lr_g * self.heat(variable.dtype)) * self.noise(variable)
        self.assign_add(variable, noise - lr_g * self.slope(gradient, variable))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rho": self.rho, "epsilon": self.epsilon}
