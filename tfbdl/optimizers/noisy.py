"""The base of optimizers that make noise: its key, which is saved with them, N and temperature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras.optimizers.schedules import LearningRateSchedule

from tfbdl import arguments, random
from tfbdl.arguments import function, not_negative, optional, positive, positive_integer
from tfbdl.identifiers import of_config
from tfbdl.inherited_arguments import OptimizerArguments, Unpack
from tfbdl.keras_private import make_default_seed
from tfbdl.optimizers import keras_arguments


class NoisyOptimizer(keras.optimizers.Optimizer):
    """An optimizer that draws weights.

    Args:
        learning_rate: a number or a schedule, in the scale of Keras' mean loss.
        num_data: N, the number of training examples; required, since the noise depends on it.
        temperature: T >= 0: 1 is the posterior, less a cold one.
        seed: the seed of the noise, an integer of 64 bits; None takes one from Keras' global seed.
        **kwargs: arguments of `keras.optimizers.Optimizer`: `gradient_accumulation_steps` (one
            step, and one draw of noise, for so many batches), `loss_scale_factor`, `name`. Weight
            decay, moving averages and clipping are refused, since with them the optimizer would not
            find the posterior.

    Raises:
        ValueError: if an argument is out of its range, or of those refused.
    """

    def __init__(
        self,
        learning_rate: Any,
        *,
        num_data: int,
        temperature: float = 1.0,
        seed: int | None = None,
        **kwargs: Unpack[OptimizerArguments],
    ) -> None:
        num_data = positive_integer(
            "num_data", num_data, ": the number of training examples", most=2**63
        )
        keras_arguments.check(kwargs, num_data)
        super().__init__(learning_rate=_checked_rate(learning_rate), **kwargs)
        self.num_data = num_data
        self.temperature = not_negative(
            "temperature", temperature, "at least 0; 1 is the posterior"
        )
        self.seed = optional(arguments.seed, "seed", seed)

    @property
    def learning_rate(self) -> Any:
        """The learning rate as it is now; one that is set is checked as the first one is."""
        return super().learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: Any) -> None:
        keras.optimizers.Optimizer.learning_rate.fset(self, _checked_rate(learning_rate))

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Makes the key of the noise, a variable so that a resumed run goes on with its noise."""
        if self.built:
            return
        super().build(variables)
        seed = make_default_seed() if self.seed is None else self.seed
        key = random.key_of(seed, "optimizer")
        self._key = self.add_variable(
            shape=(), dtype="int64", initializer=lambda shape, dtype: key, name="key"
        )

    def noise(self, variable: keras.Variable, sample: int = 0) -> tf.Tensor:
        """Standard normal noise for this variable and step, the same on every replica.

        Args:
            variable: one of those that the optimizer was built with.
            sample: the number of the draw, where a step takes several.
        """
        key = random.fold_in(tf.convert_to_tensor(self._key), tf.convert_to_tensor(self.iterations))
        key = random.fold_in(key, self._get_variable_index(variable))
        if sample:
            key = random.fold_in(key, sample)
        return random.normal(key, variable.shape, variable.dtype)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_data": self.num_data,
            "temperature": self.temperature,
            "seed": self.seed,
        }


def _checked_rate(learning_rate: Any) -> Any:
    """A schedule, a function, a variable, or a positive number.

    Raises:
        ValueError: if it is none of these.
    """
    if isinstance(learning_rate, dict):
        return of_config("learning_rate", learning_rate, LearningRateSchedule)
    if isinstance(learning_rate, (LearningRateSchedule, keras.Variable)):
        return learning_rate
    if callable(learning_rate):
        return function("learning_rate", learning_rate, "a function of nothing", takes=0)
    if tf.is_tensor(learning_rate) and learning_rate.shape == ():
        learning_rate = learning_rate.numpy().item()
    return positive("learning_rate", learning_rate, "a positive number, or a schedule")
