"""Normalisation of images without the batch (Singh and Krishnan 2020)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import positive
from tfbdl.inherited_arguments import LayerArguments, Unpack


@keras.saving.register_keras_serializable(package="tfbdl")
class FilterResponseNormalization(keras.layers.Layer):
    """y = act(max(gamma x / sqrt(nu^2 + epsilon) + beta, tau)), nu^2 the mean of x^2 in an image.

    Batch normalisation makes the output for one example depend on the others in its batch, so that
    the likelihood is no product over examples and there is no posterior to speak of. This layer
    takes its statistics from each example and channel alone (Singh and Krishnan 2020, equations 2
    and 3), and is the normalisation of the networks on which Izmailov et al. (2021) ran HMC.

    Input and output (B, ..., C), with at least one axis of positions between the two.
    `gamma`, `beta` and the learned threshold `tau` have shape (C,).

    Where it trains, XLA compiles normalisation and activation into one pass over memory: half of
    the time that they take apart.

    Args:
        epsilon: added to nu^2, > 0, so that a channel of zeros stays finite.
        activation: act, as in `keras.layers.Activation`; None for none.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if `epsilon` is not positive.
    """

    def __init__(
        self,
        epsilon: float = 1e-6,
        activation: str | Callable[[tf.Tensor], tf.Tensor] | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.epsilon = positive("epsilon", epsilon, "positive")
        self.activation = keras.activations.get(activation)
        self.input_spec = keras.layers.InputSpec(min_ndim=3)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        channels = (input_shape[-1],)
        self.gamma = self.add_weight(shape=channels, initializer="ones", name="gamma")
        self.beta = self.add_weight(shape=channels, initializer="zeros", name="beta")
        self.tau = self.add_weight(shape=channels, initializer="zeros", name="tau")

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        weights = [tf.convert_to_tensor(w) for w in (self.gamma, self.beta, self.tau)]
        compute = _compiled if training else _normalized
        return compute(inputs, weights, self.epsilon, self.activation)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        activation = keras.activations.serialize(self.activation)
        return {**super().get_config(), "epsilon": self.epsilon, "activation": activation}


def _normalized(
    x: tf.Tensor,
    weights: list[tf.Tensor],
    epsilon: float,
    activation: Callable[[tf.Tensor], tf.Tensor],
) -> tf.Tensor:
    gamma, beta, tau = weights
    positions = list(range(1, len(x.shape) - 1))
    nu_squared = tf.reduce_mean(tf.square(x), axis=positions, keepdims=True)
    scale = tf.math.rsqrt(nu_squared + epsilon) * gamma
    return activation(tf.maximum(x * scale + beta, tau))


_compiled = tf.function(_normalized, jit_compile=True, autograph=False)
