"""A noise scale that is learned, one for all x."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import positive
from tfbdl.inherited_arguments import LayerArguments, Unpack


@keras.saving.register_keras_serializable(package="tfbdl")
class LearnedScale(keras.layers.Layer):
    """Appends a learned raw scale to each mean: the last layer before `Normal("predicted")`.

    Input (..., D), output (..., 2 D): the inputs, and D trainable numbers whose softplus is the
    scale of the likelihood. It is estimated by maximum likelihood, as part of the training.

    Args:
        initial_scale: the first scale, > 0; the default suits standardised targets.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if `initial_scale` is not positive.
    """

    def __init__(self, initial_scale: float = 1.0, **kwargs: Unpack[LayerArguments]) -> None:
        super().__init__(**kwargs)
        self.initial_scale = positive("initial_scale", initial_scale)
        self.supports_masking = True

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        start = self.initial_scale + math.log(-math.expm1(-self.initial_scale))
        self.raw_scale = self.add_weight(
            shape=(input_shape[-1],),
            initializer=keras.initializers.Constant(start),
            autocast=False,
            name="raw_scale",
        )

    @property
    def scale(self) -> tf.Tensor:
        """The learned scale, shape (D,)."""
        return tf.math.softplus(tf.convert_to_tensor(self.raw_scale))

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        raw = tf.cast(tf.convert_to_tensor(self.raw_scale), inputs.dtype)
        return tf.concat([inputs, tf.zeros_like(inputs) + raw], axis=-1)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        d = input_shape[-1]
        return (*input_shape[:-1], None if d is None else 2 * d)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "initial_scale": self.initial_scale}
