"""Positions of y, such as pixels and tokens: sums over them, and which of them count.

As in Keras' losses, outputs of shape (B, ..., D) have a y at each place along all axes but the
last; those of shape (B, D) or (B,) have one for each example.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfbdl.keras_private import keras_mask, set_keras_mask


def sum_over_example(values: tf.Tensor) -> tf.Tensor:
    """The sum over all axes but the first, shape (B,)."""
    return tf.reduce_sum(values, axis=tf.range(1, tf.rank(values)))


def sum_over_position(values: tf.Tensor) -> tf.Tensor:
    """The sum over the last axis, shape (B, ...); values of shape (B,) are positions themselves."""
    return tf.reduce_sum(values, axis=-1) if values.shape.rank > 1 else values


def with_mask(outputs: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
    """The outputs with a mask in the form in which Keras' layers hand theirs on."""
    if mask is None:
        return outputs
    outputs = tf.identity(outputs)
    set_keras_mask(outputs, mask)
    return outputs


def with_masks(outputs: Any, masks: Sequence[tf.Tensor | None]) -> Any:
    """Several outputs, or one, each with its mask."""
    pairs = zip(keras.tree.flatten(outputs), masks, strict=True)
    return keras.tree.pack_sequence_as(outputs, [with_mask(*pair) for pair in pairs])


def mask_at_positions(outputs: tf.Tensor) -> tf.Tensor | None:
    """The mask of outputs, booleans that go with their positions, shape (B, ...); or None.

    Raises:
        ValueError: if it has axes that the positions have not.
    """
    mask = keras_mask(outputs)
    if mask is None:
        return None
    mask, shape = tf.cast(mask, tf.bool), shape_of_positions(outputs.shape)
    if mask.shape.rank > shape.rank or not mask.shape.is_compatible_with(shape[: mask.shape.rank]):
        raise ValueError(
            f"outputs of shape {tuple(outputs.shape)} have a Keras mask of shape "
            f"{tuple(mask.shape)}, not that of their positions, {tuple(shape)}; end it before the "
            "layer that sums over positions, whose compute_mask gives None"
        )
    missing = shape.rank - mask.shape.rank
    mask = tf.reshape(mask, tf.concat([tf.shape(mask), [1] * missing], axis=0)) if missing else mask
    return mask & tf.ones(tf.shape(outputs)[: shape.rank], tf.bool)


def masks_of(outputs: Any) -> list[tf.Tensor | None]:
    """`mask_at_positions` of each of several outputs, or of the one that there is."""
    return [mask_at_positions(output) for output in keras.tree.flatten(outputs)]


def shape_of_positions(shape: tf.TensorShape) -> tf.TensorShape:
    """The shape (B, ...) of the positions of outputs of a shape."""
    return shape[:-1] if shape.rank > 1 else shape


def where_counted(counted: tf.Tensor | None, values: tf.Tensor) -> tf.Tensor:
    """The values, shape (B, ...), and 0 at positions that do not count."""
    return values if counted is None else tf.where(counted, values, tf.zeros_like(values))


def sum_counted(counted: tf.Tensor | None, values: tf.Tensor) -> tf.Tensor:
    """The sum over an example of values, (B, ..., D), at the positions that count, shape (B,)."""
    return sum_over_example(where_counted(counted, sum_over_position(values)))


def are_of_positions(sample_weight: Any) -> bool:
    """Whether weights, or their static shape, are more than one for each example."""
    shape = tf.TensorShape(getattr(sample_weight, "shape", ()))
    return bool(shape.rank) and any(length != 1 for length in shape[1:])


def weights_at_positions(sample_weight: Any, like: tf.Tensor) -> tf.Tensor:
    """Weights of positions, of the shape (B, ...) of `like`; an axis of length 1 may end them.

    Raises:
        ValueError: if they have another shape.
    """
    weights = tf.cast(keras.ops.convert_to_tensor(sample_weight), like.dtype)
    if weights.shape.rank == like.shape.rank + 1 and weights.shape[-1] == 1:
        weights = weights[..., 0]
    if not weights.shape.is_compatible_with(like.shape):
        raise ValueError(
            f"sample_weight has shape {tuple(weights.shape)}; give one for each example, (B,), or "
            f"each position, {tuple(like.shape)}"
        )
    return weights
