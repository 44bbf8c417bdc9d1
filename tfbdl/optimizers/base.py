"""The base of the samplers: noise of the right size, and the prior."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl import priors
from tfbdl.arguments import shown
from tfbdl.inherited_arguments import OptimizerArguments, Unpack
from tfbdl.keras_private_training import batches_seen, schedule_of
from tfbdl.optimizers.cyclical import CyclicalSchedule
from tfbdl.optimizers.noisy import NoisyOptimizer
from tfbdl.priors import Prior


class SamplingOptimizer(NoisyOptimizer):
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
        **kwargs: arguments of `keras.optimizers.Optimizer`, as in `NoisyOptimizer`.

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
        **kwargs: Unpack[OptimizerArguments],
    ) -> None:
        super().__init__(
            learning_rate, num_data=num_data, temperature=temperature, seed=seed, **kwargs
        )
        self.prior = None if prior is None else priors.density(prior)
        if self.prior is not None and self.prior.discrete:
            raise ValueError(f"prior={shown(prior)} is discrete, which has no gradient to follow")

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

    def heat(self, dtype: str) -> tf.Tensor:
        """T / N, the variance of the noise's target; 0 where a cyclical schedule explores."""
        heat = self.temperature / self.num_data
        schedule = schedule_of(self)
        if isinstance(schedule, CyclicalSchedule):
            heat *= tf.cast(schedule.samples(batches_seen(self)), tf.float32)
        return tf.cast(heat, dtype)

    def get_config(self) -> dict[str, Any]:
        prior = None if self.prior is None else keras.saving.serialize_keras_object(self.prior)
        return {**super().get_config(), "prior": prior}
