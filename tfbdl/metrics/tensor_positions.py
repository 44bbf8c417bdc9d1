"""Positions in a batch, such as pixels and tokens, as examples of a metric."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfbdl.keras_private import keras_mask
from tfbdl.likelihoods.positions import mask_at_positions
from tfbdl.metrics import classifier
from tfbdl.metrics.tensor_checks import as_tensor


def as_examples(
    y_true: Any, y_pred: Any, sample_weight: Any = None
) -> tuple[Any, Any, tf.Tensor | None]:
    """Labels (B, ...) and outputs (B, ..., C) of positions as (M,) and (M, C), and their weights.

    A mask that Keras' layers have handed on with the outputs counts as weights of 0 and 1. Targets
    of the shape of the outputs stay beside them. What has no positions is given back as it is.

    Raises:
        ValueError: if the labels have not the shape of the positions.
    """
    outputs, mask = as_tensor("y_pred", y_pred), keras_mask(y_pred)
    rank = outputs.shape.rank
    if rank is None or rank <= 2:
        return y_true, y_pred, sample_weight
    y = as_tensor("y_true", y_true)
    if y.shape.rank == rank and y.shape[-1] == 1 != outputs.shape[-1]:
        y = y[..., 0]
    positions = outputs.shape[:-1] if y.shape.rank < rank else outputs.shape
    classifier.labels_fit("y_true", y, "y_pred", outputs, positions)
    y = tf.reshape(y, [-1] if y.shape.rank < rank else [-1, outputs.shape[-1]])
    weights = None if sample_weight is None else _of_positions(sample_weight, outputs)
    if mask is not None:
        counted = tf.cast(mask_at_positions(y_pred), tf.float64)
        weights = counted if weights is None else weights * counted
    flat = tf.reshape(outputs, [-1, outputs.shape[-1]])
    return y, flat, None if weights is None else tf.reshape(weights, [-1])


def _of_positions(sample_weight: Any, outputs: tf.Tensor) -> tf.Tensor:
    """Weights of examples, or of positions, for each position, in float64."""
    weights = tf.cast(as_tensor("sample_weight", sample_weight), tf.float64)
    rank = outputs.shape.rank - 1
    if weights.shape.rank == rank + 1 and weights.shape[-1] == 1:
        weights = weights[..., 0]
    for _ in range(rank - weights.shape.rank):
        weights = weights[..., tf.newaxis]
    like = outputs.shape[:-1]
    fits = weights.shape.rank == rank and all(
        own in (1, None) or length in (own, None)
        for own, length in zip(weights.shape, like, strict=True)
    )
    if not fits:
        raise ValueError(
            f"sample_weight has shape {tuple(weights.shape)}; give one for each example, or each "
            f"position, {tuple(like)}"
        )
    return weights + tf.zeros(tf.shape(outputs)[:-1], tf.float64)
