"""Which class is predicted, and with what confidence."""

from __future__ import annotations

import tensorflow as tf


def top_class(label: tf.Tensor, p: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The largest probability, and whether its class is the label; both of shape (N,).

    Where several classes are equally probable, the first is the predicted one.
    """
    return tf.reduce_max(p, axis=-1), tf.argmax(p, axis=-1) == label
