"""Keras' own regularisers under the name that they have in the slides' logs."""

from __future__ import annotations

import keras
import tensorflow as tf


def weight_decay(model: keras.Model) -> dict[str, tf.Tensor]:
    """The sum of the regularisers of all weights, as "wd"; nothing if there is none."""
    regularized = [v for v in model.trainable_variables if v.regularizer is not None]
    return {"wd": sum(v.regularizer(v) for v in regularized)} if regularized else {}
