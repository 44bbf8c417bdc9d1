"""Normalisation of images without the batch (Singh and Krishnan 2020)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
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

    Where it trains, XLA compiles normalisation and activation together: about two thirds of the
    time that they take apart. In mixed precision both are computed in float32.

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
        return compute(inputs, *weights, epsilon=self.epsilon, activation=self.activation)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        activation = keras.activations.serialize(self.activation)
        return {**super().get_config(), "epsilon": self.epsilon, "activation": activation}


def _normalized(
    inputs: tf.Tensor,
    *weights: tf.Tensor,
    epsilon: float,
    activation: Callable[[tf.Tensor], tf.Tensor],
) -> tf.Tensor:
    x, gamma, beta, tau = map(_single, (inputs, *weights))
    positions = list(range(1, len(inputs.shape) - 1))
    nu_squared = tf.reduce_mean(tf.square(x), positions, keepdims=True)
    y = x * (tf.math.rsqrt(nu_squared + epsilon) * gamma) + beta
    return tf.cast(activation(tf.maximum(y, tau)), inputs.dtype)


def _single(x: tf.Tensor) -> tf.Tensor:
    """In single precision what is in half: a mean of squares needs its range and digits."""
    return tf.cast(x, tf.float32) if x.dtype.size < 4 else x


@partial(tf.function, jit_compile=True, autograph=False)
def _compiled(*tensors: tf.Tensor, **settings: Any) -> tf.Tensor:
    """The output, whose gradient computes it again: less memory to go over than what it keeps."""
    compute = partial(_normalized, **settings)

    @tf.custom_gradient
    def normalized(*tensors: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
        def gradient(upstream: tf.Tensor, variables: Sequence[tf.Variable] = ()) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(tensors)
                output = compute(*tensors)
            of_tensors, of_variables = tape.gradient(output, (tensors, [*variables]), upstream)
            return (of_tensors, of_variables) if variables else of_tensors

        return compute(*tensors), gradient

    return normalized(*tensors)
