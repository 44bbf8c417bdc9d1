"""The scales of priors: fixed numbers, or learned through the bound (empirical Bayes)."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import positive


class Scale(keras.layers.Layer):
    """A positive number of a prior: fixed, or exp of a variable where the prior is trainable.

    Args:
        prior: the prior that has this number.
        name: the argument it was given as, for messages and for the layer.
        value: the number, or where learning starts.

    Raises:
        ValueError: if `value` is not a positive number whose square float32 holds.
    """

    def __init__(self, prior: keras.layers.Layer, name: str, value: Any) -> None:
        super().__init__(name=name, trainable=prior.trainable, dtype=prior.dtype_policy)
        self.initial = positive(name, value, "a positive number: a standard deviation")
        self.log: keras.Variable | None = None
        if prior.trainable:
            self.log = self.add_weight(
                shape=(), initializer=self._start, autocast=False, name="log"
            )
        self.built = True

    def _start(self, shape: tuple[int, ...], dtype: str) -> tf.Tensor:
        """The first log, in all digits of the type; those of Keras' constants are float32's."""
        return tf.fill(shape, tf.constant(math.log(self.initial), dtype))

    def now(self, dtype: tf.DType = tf.float32) -> tf.Tensor:
        """The number as it is now."""
        if self.log is None:
            return tf.constant(self.initial, dtype)
        return tf.cast(tf.exp(tf.convert_to_tensor(self.log)), dtype)
