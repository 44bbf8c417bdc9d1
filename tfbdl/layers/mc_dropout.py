"""Dropout as a Bayesian approximation (Gal and Ghahramani 2016): dropout that can be drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.arguments import boolean, number, shown
from tfbdl.draws import accept_draws, handed_down
from tfbdl.inherited_arguments import LayerArguments, Unpack


@keras.saving.register_keras_serializable(package="tfbdl")
class MCDropout(keras.layers.Layer):
    """`keras.layers.Dropout` that stays on in drawn functions.

    `training=True` is ordinary dropout, `training=False` the naive approximation (no dropout:
    activations are rescaled in training). In a draw (`tfbdl.draws`) the rest of the model is in
    inference mode and one mask serves all x, so that the draw is a function: equal rows of x have
    equal outputs, in whatever batch they come.

    Args:
        rate: probability that a unit is dropped, in [0, 1).
        noise_shape: shape of the mask that is broadcast to the input, as in Keras; None entries
            follow the input. `(None, 1, 1, None)` drops whole channels of images, as
            `keras.layers.SpatialDropout2D` does.
        per_example: whether draws, too, use a mask per example. Means over draws are the same;
            functions are not coherent then.
        seed: as in Keras.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Raises:
        ValueError: if an argument is out of its range; when called, if `noise_shape` does not fit
            the input.
    """

    def __init__(
        self,
        rate: float,
        noise_shape: Sequence[int | None] | None = None,
        *,
        per_example: bool = False,
        seed: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.rate = number(
            "rate", rate, lambda r: 0 <= r < 1, "in [0, 1): the probability to drop a unit"
        )
        self.noise_shape = None if noise_shape is None else _lengths(noise_shape)
        self.per_example = boolean("per_example", per_example)
        self.seed = random.Seed(seed)
        self.supports_masking = True
        accept_draws(self)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Raises ValueError unless `noise_shape` can be broadcast to inputs of this shape."""
        if self.noise_shape is not None:
            if len(self.noise_shape) != len(input_shape):
                raise ValueError(
                    f"noise_shape={self.noise_shape} must have the {len(input_shape)} axes of the "
                    "input"
                )
            pairs = zip(self.noise_shape, input_shape, strict=True)
            if any(None not in (n, d) and n not in (1, d) for n, d in pairs):
                raise ValueError(
                    f"noise_shape={self.noise_shape} must have None, 1 or the length of the input "
                    f"on each axis, whose shape is {tuple(input_shape)}"
                )
        self.built = True

    def call(
        self, inputs: tf.Tensor, training: bool = False, draw: tf.Tensor | None = None
    ) -> tf.Tensor:
        draw = handed_down(draw)
        key = self.seed.key(training, draw)
        if key is None or self.rate == 0.0:
            return inputs
        shape = self._mask_shape(inputs, shared=draw is not None and not self.per_example)
        return inputs * self.noise(key, shape, inputs.dtype)

    def noise(self, key: tf.Tensor, shape: random.Shape, dtype: tf.DType) -> tf.Tensor:
        """The factor of the inputs, of mean 1: zeros at the rate, the rest rescaled.

        It ends in a division, which XLA does once, where it would repeat noise for each row.
        """
        keep = 1.0 - self.rate
        kept = random.bernoulli(key, shape, keep, tf.bool)
        return 1.0 / tf.where(kept, tf.cast(keep, dtype), tf.cast(math.inf, dtype))

    def _mask_shape(self, x: tf.Tensor, shared: bool) -> tf.Tensor | list[int]:
        dims: list[Any] = list(x.shape)
        if dims[0] is None:
            dims[0] = tf.shape(x)[0]
        if None in dims:
            dims = tf.unstack(tf.shape(x))
        if self.noise_shape is not None:
            pairs = zip(dims, self.noise_shape, strict=True)
            dims = [d if n is None else n for d, n in pairs]
        if shared:
            dims[0] = 1
        return dims if all(isinstance(d, int) for d in dims) else tf.stack(dims)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "rate": self.rate,
            "noise_shape": self.noise_shape,
            "per_example": self.per_example,
            "seed": self.seed.seed,
        }


def _lengths(noise_shape: Any) -> tuple[int | None, ...]:
    """The shape as a tuple; ValueError unless its entries are None or positive integers."""
    try:
        entries = tuple(noise_shape)
    except Exception:  # symbolic tensors and classes of the user's own may raise anything
        entries = (0,)
    if not all(n is None or (isinstance(n, Integral) and int(n) > 0) for n in entries):
        raise ValueError(
            f"noise_shape={shown(noise_shape)} must hold None or a positive integer for each axis"
        )
    return tuple(None if n is None else int(n) for n in entries)
