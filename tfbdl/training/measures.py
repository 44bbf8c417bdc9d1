"""What training steps measure beside the loss, the metrics and the layers' terms: columns of logs.

`tfbdl.train` and the callbacks that observe `fit` ask for it in each step, before the weights move.
"""

from __future__ import annotations

import keras
import tensorflow as tf


def measures(model: keras.Model) -> dict[str, tf.Tensor]:
    """Scalars by the names of their columns, whose means over an epoch are logged."""
    return weight_decay(model)


def weight_decay(model: keras.Model) -> dict[str, tf.Tensor]:
    """The sum of Keras' own regularisers, as the slides' logs call it; nothing if there is none."""
    regularized = [v for v in model.trainable_variables if v.regularizer is not None]
    return {"wd": sum(v.regularizer(v) for v in regularized)} if regularized else {}
