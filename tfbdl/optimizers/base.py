"""The base of the samplers: noise that is saved with them, the prior, the temperature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from keras.optimizers.schedules import LearningRateSchedule

from tfbdl import arguments, priors, random
from tfbdl.arguments import function, not_negative, optional, positive, positive_integer, shown
from tfbdl.identifiers import of_config
from tfbdl.keras_private import batches_seen, make_default_seed, schedule_of
from tfbdl.optimizers import keras_arguments
from tfbdl.optimizers.cyclical import CyclicalSchedule
from tfbdl.priors import Prior


class SamplingOptimizer(keras.optimizers.Optimizer):
    """An optimizer whose iterates are samples of the posterior of the weights.

    With Keras' mean loss L(w), the negative log likelihood per example, and a prior, the posterior
    at temperature T is proportional to exp(-N U(w) / T) with U = L - log p(w) / N. The prior enters
    once: here as `prior`, or in the model as a regularizer or a layer's own loss.

    Args:
        learning_rate: a number or a schedule, in the scale of the mean loss: at temperature 0 it is
            that of SGD. The step in units of N U is learning_rate / N.
        num_data: N, the number of training examples; required, since the noise depends on it.
        temperature: T >= 0: 1 samples the posterior, less a cold one, 0 optimises.
        prior: p(w) of all trainable weights: a `tfbdl.priors.Prior`, its name, or the scale of a
            normal; None where the loss has it already.
        seed: the seed of the noise, an integer of 64 bits; None takes one from Keras' global seed.
        **kwargs: arguments of `keras.optimizers.Optimizer`: `gradient_accumulation_steps` (one
            step, and one draw of noise, for so many batches), `loss_scale_factor`, `name`. Weight
            decay, moving averages and clipping are refused, since with them it is not the posterior
            that is sampled.

    Raises:
        ValueError: if an argument is out of its range, or of those refused.
    """

    def __init__(
        self,
        learning_rate: Any,
        *,
        num_data: int,
        temperature: float = 1.0,
        prior: float | str | dict[str, Any] | Prior | None = None,
        seed: int | None = None,
        **kwargs: Any,
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
        self.prior = None if prior is None else priors.density(prior)
        if self.prior is not None and self.prior.discrete:
            raise ValueError(f"prior={shown(prior)} is discrete, which has no gradient to follow")
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

    def slope(self, gradient: tf.Tensor, variable: keras.Variable) -> tf.Tensor:
        """The gradient of U: that of the loss, and of -log p(w) / N."""
        gradient = tf.cast(gradient, variable.dtype)
        if self.prior is None:
            return gradient
        w = tf.convert_to_tensor(variable)
        self.prior.attach(tuple(variable.shape))
        with tf.GradientTape() as tape:
            tape.watch(w)
            log_prior = tf.reduce_sum(self.prior.log_prob(w))
        return gradient - tape.gradient(log_prior, w) / self.num_data

    def noise(self, variable: keras.Variable) -> tf.Tensor:
        """Standard normal noise for this variable and step, the same on every replica."""
        key = random.fold_in(tf.convert_to_tensor(self._key), tf.convert_to_tensor(self.iterations))
        key = random.fold_in(key, self._get_variable_index(variable))
        return random.normal(key, variable.shape, variable.dtype)

    def heat(self, dtype: str) -> tf.Tensor:
        """T / N, the variance of the noise's target; 0 where a cyclical schedule explores."""
        heat = self.temperature / self.num_data
        schedule = schedule_of(self)
        if isinstance(schedule, CyclicalSchedule):
            heat *= tf.cast(schedule.samples(batches_seen(self)), tf.float32)
        return tf.cast(heat, dtype)

    def get_config(self) -> dict[str, Any]:
        prior = None if self.prior is None else keras.saving.serialize_keras_object(self.prior)
        return {
            **super().get_config(),
            "num_data": self.num_data,
            "temperature": self.temperature,
            "prior": prior,
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
