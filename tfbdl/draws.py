"""The switch between the mean and a drawn function.

A *draw* is an int64 tensor of shape (2,), (seed, sample number). It names one function of the
posterior: every stochastic layer turns it into its own noise, so one draw gives one weight sample
(one dropout mask per unit) for all x it is called with, on any batch, in any order, on any device.
Without a draw, layers sample afresh under `training=True` and use the posterior mean otherwise.

Draws travel as a call argument that Keras hands down to all layers, as it does with `training`.
"""

from __future__ import annotations

import numbers
from typing import Any

import keras
import tensorflow as tf

from tfbdl.keras_private import forward_pass, inherit_call_argument, takes_call_argument
from tfbdl.random import word
from tfbdl.shared_part import SharedPart


def accept_draws(layer: keras.layers.Layer) -> None:
    """Lets `layer.call(..., draw=None)` receive the draw. To be called in `__init__`."""
    inherit_call_argument(layer, "draw")


def handed_down(draw: tf.Tensor | None) -> tf.Tensor | None:
    """The draw of a layer's call, also for layers that are called past what hands arguments down.

    `TimeDistributed` calls its layer in this way.
    """
    now = forward_pass()
    return draw if draw is not None or now is None else now.get_value("draw")


class DrawnModel(keras.layers.Layer):
    """Calls a model as drawn functions: `DrawnModel(model)(x, draw=make_draw(seed, s))`.

    The model runs in inference mode, so that BatchNormalization and stock Dropout layers stay
    there. What comes before its first random layer is computed once: a function drawn in the graph
    of x, and all that are drawn for the same x in loops inside that graph, share it.

    Args:
        model: any Keras model; only the layers of this package see the draw.
    """

    def __init__(self, model: keras.Model) -> None:
        super().__init__(autocast=False)
        self.model = model
        self._part = SharedPart(model, is_drawn)
        accept_draws(self)

    def call(self, x: Any, draw: tf.Tensor | None = None) -> Any:
        own = () if draw is None else (draw,)
        with self._part.known(x, own):
            return self.model(x, training=False)


def is_drawn(layer: keras.layers.Layer) -> bool:
    """Whether a layer is another one in each draw."""
    return takes_call_argument(layer, "draw")


def make_draw(seed: int | tf.Tensor, sample: int | tf.Tensor) -> tf.Tensor:
    """Names sample number `sample` of the sequence `seed`, an integer of 64 bits."""
    if isinstance(seed, numbers.Integral):
        seed = tf.constant(word(int(seed)), tf.int64)
    return tf.stack([tf.cast(seed, tf.int64), tf.cast(sample, tf.int64)])
