"""Hamiltonian Monte Carlo with a mass for each weight tensor (Wenzel et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import number, positive
from tfbdl.inherited_arguments import OptimizerArguments, Unpack
from tfbdl.optimizers.sghmc import SGHMC
from tfbdl.priors import Prior


@keras.saving.register_keras_serializable(package="tfbdl")
class PreconditionedSGHMC(SGHMC):
    """`SGHMC` with lr / (epsilon + sqrt(V)), V the mean squared gradient of the weight tensor.

    Tensors whose gradients are large have heavy masses. V is a running mean over steps and over the
    tensor's elements, as the layerwise preconditioner of Wenzel et al. (2020, appendix C), who
    estimate it between epochs; one mass for a tensor hardly depends on its weights, so that the
    term of its gradient is left out.

    Args:
        learning_rate: as in `SamplingOptimizer`.
        momentum: as in `SGHMC`.
        rho: the decay of the running mean, in [0, 1).
        epsilon: > 0.
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
            momentum=momentum,
            num_data=num_data,
            temperature=temperature,
            prior=prior,
            seed=seed,
            **kwargs,
        )
        self.rho = number("rho", rho, lambda r: 0 <= r < 1, "in [0, 1)")
        self.epsilon = positive("epsilon", epsilon)

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Makes the running means, 1 at the start, so that the first steps are those of SGHMC."""
        if self.built:
            return
        super().build(variables)
        self._squares = [
            self.add_variable(shape=(), dtype=v.dtype, initializer="ones", name=f"square_{i}")
            for i, v in enumerate(variables)
        ]

    def adapt(self, gradient: tf.Tensor, variable: keras.Variable) -> None:
        """Takes the squared gradient into the running mean."""
        square = self._squares[self._get_variable_index(variable)]
        now = tf.reduce_mean(tf.square(tf.cast(gradient, variable.dtype)))
        self.assign(square, self.rho * square + (1.0 - self.rho) * now)

    def inverse_mass(self, variable: keras.Variable) -> tf.Tensor:
        square = self._squares[self._get_variable_index(variable)]
        return 1.0 / (self.epsilon + tf.sqrt(tf.convert_to_tensor(square)))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rho": self.rho, "epsilon": self.epsilon}
