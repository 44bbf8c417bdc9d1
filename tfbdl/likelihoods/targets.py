"""Targets of the shape, and in the range, that outputs describe."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfbdl.examples import check_finite
from tfbdl.keras_private import keras_mask
from tfbdl.likelihoods.positions import with_mask


def wide(outputs: Any) -> tf.Tensor:
    """Outputs in at least float32, where densities are computed."""
    tensor = tf.convert_to_tensor(outputs)
    if tensor.dtype.size >= 4:
        return tensor
    return with_mask(tf.cast(tensor, tf.float32), keras_mask(outputs))


def aligned(y: Any, shape: tf.TensorShape) -> Any:
    """Y with one axis of length one more or less at the end, if that gives it the right rank."""
    if tf.TensorShape(y.shape).rank is None:
        return of_examples(y, shape)
    if len(y.shape) == shape.rank - 1:
        return y[..., None]
    return y[..., 0] if len(y.shape) == shape.rank + 1 and y.shape[-1] == 1 else y


def of_examples(y: tf.Tensor, shape: tf.TensorShape) -> tf.Tensor:
    """Y of `shape`, where its rank is not known: Keras' graphs forget it if they meet several.

    Raises:
        ValueError: if the shape of an example is not known either.
    """
    if not shape[1:].is_fully_defined():
        raise ValueError(f"y has several ranks; give all of shape {tuple(shape)}")
    return tf.reshape(y, [-1, *shape[1:]])


def match(y: Any, shape: Any) -> Any:
    """Y, a tensor or array, of `shape`; they may differ by an axis of length one at the end.

    Raises:
        ValueError: if they differ otherwise; broadcasting (B,) against (B, 1) would give (B, B).
    """
    shape = tf.TensorShape(shape)
    fitting = aligned(y, shape)
    if not shape.is_compatible_with(fitting.shape):
        raise ValueError(f"y has shape {tuple(y.shape)}; these outputs describe {tuple(shape)}")
    return fitting


def check_numbers(y: Any, shape: tf.TensorShape) -> None:
    """Raises ValueError unless targets are finite and of `shape`, but for the first axis."""
    y = np.asarray(y)
    match(y, [len(y), *shape[1:]])
    check_finite("y", y)


def check_range(y: Any, low: float, high: float) -> None:
    """Raises ValueError unless all targets are in [low, high]."""
    y = np.asarray(y)
    outside = y[~((y >= low) & (y <= high))]
    if outside.size:
        raise ValueError(f"y has the value {outside[0]:g}; give values in [{low:g}, {high:g}]")
