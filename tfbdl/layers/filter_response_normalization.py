"""Normalisation of images without the batch (Singh and Krishnan 2020)."""

from __future__ import annotations

import keras
import tensorflow as tf

from tfbdl.arguments import number


@keras.saving.register_keras_serializable(package="tfbdl")
class FilterResponseNormalization(keras.layers.Layer):
    """y = max(gamma x / sqrt(nu^2 + epsilon) + beta, tau), nu^2 the mean of x^2 over positions.

    Batch normalisation makes the output for one example depend on the others in its batch, so
    that the likelihood is no product over examples and there is no posterior to speak of. This
    takes its statistics from each example and channel alone (Singh and Krishnan 2020, equations 2
    and 3), and is the normalisation of the networks on which Izmailov et al. (2021) ran HMC.

    Input and output (B, ..., C), with at least one axis of positions between the two.
    `gamma`, `beta` and the learned threshold `tau` have shape (C,).

    Args:
        epsilon: added to nu^2, > 0, so that a channel of zeros stays finite.
        **kwargs: as in `keras.layers.Layer`.

    Raises:
        ValueError: if `epsilon` is not positive.
    """

    def __init__(self, epsilon: float = 1e-6, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.epsilon = number("epsilon", epsilon, lambda e: 0 < e < float("inf"), "positive")
        self.input_spec = keras.layers.InputSpec(min_ndim=3)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        channels = (input_shape[-1],)
        self.gamma = self.add_weight(shape=channels, initializer="ones", name="gamma")
        self.beta = self.add_weight(shape=channels, initializer="zeros", name="beta")
        self.tau = self.add_weight(shape=channels, initializer="zeros", name="tau")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        positions = list(range(1, len(x.shape) - 1))
        nu_squared = tf.reduce_mean(tf.square(x), axis=positions, keepdims=True)
        scale = tf.math.rsqrt(nu_squared + self.epsilon) * tf.convert_to_tensor(self.gamma)
        return tf.maximum(x * scale + tf.convert_to_tensor(self.beta), self.tau)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return input_shape

    def get_config(self) -> dict:
        return {**super().get_config(), "epsilon": self.epsilon}
