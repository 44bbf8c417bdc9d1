"""The cells of Keras' recurrent layers, with weights that are given to them for each call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from tfbdl import random
from tfbdl.calls import OfCall
from tfbdl.keras_private import drop_seed_generator


class _Given(keras.layers.Layer):
    """Stands before a cell of Keras among the bases, and takes its variables and noise from it."""

    kernel = OfCall(lambda: None)
    recurrent_kernel = OfCall(lambda: None)
    bias = OfCall(lambda: None)
    _masks = OfCall(lambda: (None, None))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        drop_seed_generator(self)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.built = True

    @contextmanager
    def given(
        self, weights: list[tf.Tensor], x: tf.Tensor, key: tf.Tensor | None
    ) -> Iterator[None]:
        """Sets kernel, recurrent kernel and bias; and for x (B, d_in) the masks of `key`, if any.

        As in Keras, a mask holds for all steps of an example.
        """
        self.kernel, self.recurrent_kernel, self.bias = (*weights, None)[:3]
        if key is not None:
            units = tf.zeros([tf.shape(x)[0], self.units], x.dtype)
            self._masks = (
                self._make_masks(random.fold_in(key, 0), x, self.dropout),
                self._make_masks(random.fold_in(key, 1), units, self.recurrent_dropout),
            )
        try:
            yield
        finally:
            self.kernel = self.recurrent_kernel = self.bias = None
            self._masks = (None, None)

    def _make_masks(self, key: tf.Tensor, x: tf.Tensor, rate: float) -> Any:
        """One for all gates, or a list of one for each, as the cell wants them."""
        per_gate = self.implementation == 1
        shape = [self.dropout_mask_count if per_gate else 1, tf.shape(x)[0], x.shape[-1]]
        masks = random.bernoulli(key, tf.stack(shape), 1 - rate, x.dtype) / (1 - rate)
        return tf.unstack(masks, shape[0]) if per_gate else masks[0]

    def get_dropout_mask(self, step_input: tf.Tensor) -> Any:
        """The dropout mask of the inputs."""
        return self._masks[0]

    def get_recurrent_dropout_mask(self, step_input: tf.Tensor) -> Any:
        """The dropout mask of the states."""
        return self._masks[1]


class GivenLSTMCell(_Given, keras.layers.LSTMCell):
    """`keras.layers.LSTMCell` with given weights."""


class GivenGRUCell(_Given, keras.layers.GRUCell):
    """`keras.layers.GRUCell` with given weights."""
