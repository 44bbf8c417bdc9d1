"""Probabilities that a network gives: their logarithms at both ends, and the logits behind them."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf


def log_of(p: tf.Tensor) -> tf.Tensor:
    """The logarithm of probabilities, finite for all p >= 0; NaN for negative ones.

    It is exact down to the smallest normal number t. Below, the value is log t (-87 in float32) and
    the slope t^-1/2, so that the loss of a target held impossible, and its gradient, are finite.
    """
    least = float(np.finfo(p.dtype.as_numpy_dtype).tiny)
    missing = tf.where(p < least, p - least, tf.zeros_like(p))
    log_p = tf.math.log(tf.maximum(p, least)) + missing / math.sqrt(least)
    return tf.where(p < 0, tf.constant(math.nan, p.dtype), log_p)


def log_of_rest(p: tf.Tensor) -> tf.Tensor:
    """log(1 - p), as exact at small p as `log_of` is at a small 1 - p."""
    return tf.where(p < 0.5, tf.math.log1p(-tf.minimum(p, 0.5)), log_of(1.0 - p))


def logits_behind(outputs: tf.Tensor, operation: str) -> tf.Tensor | None:
    """The logits from which TensorFlow's `operation` computed these outputs, where that is known.

    It is while a graph is made, as in `fit`, and where nothing but a change of precision lies
    between the two.
    """
    made_by = getattr(outputs, "op", None)
    while made_by is not None and made_by.type == "Cast":
        made_by = made_by.inputs[0].op
    return made_by.inputs[0] if made_by is not None and made_by.type == operation else None


def refuse_activation(outputs: tf.Tensor, operation: str) -> None:
    """Raises ValueError where logits are known to be the result of TensorFlow's `operation`."""
    if logits_behind(outputs, operation) is not None:
        raise ValueError(
            f"from_logits=True, but outputs end in {operation.lower()}: they are probabilities; "
            "use from_logits=False"
        )


def check_probabilities(outputs: tf.Tensor) -> None:
    """Raises ValueError unless all values are in [0, 1]."""
    if tf.reduce_any((outputs < 0) | (outputs > 1)):
        raise ValueError("outputs leave [0, 1]: they look like logits; use from_logits=True")
