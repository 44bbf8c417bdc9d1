"""Metrics of the positions that have a label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from tfbdl.arguments import instance, integer
from tfbdl.examples import as_array
from tfbdl.keras_private import keras_mask
from tfbdl.likelihoods.positions import mask_at_positions, with_mask
from tfbdl.metrics.kept_scores import KeptScores
from tfbdl.metrics.of_metric import OfMetric


def labelled(
    y: ArrayLike,
    arrays: Sequence[ArrayLike] = (),
    *,
    ignore_class: int | None = None,
    mask: ArrayLike | None = None,
) -> tuple[np.ndarray, ...]:
    """Labels that count, and what belongs to them, as examples of any metric.

    Two examples are a segmentation with a border that has no label, and sequences that are filled
    up to one length:

        parts = [prediction.mean, prediction.entropy]
        y, p, entropy = metrics.labelled(y, parts, ignore_class=255)
        y, p = metrics.labelled(y, [prediction.mean], mask=prediction.mask)

    Args:
        y: integer labels, shape (N, ...).
        arrays: arrays of the same positions, shape (N, ...) or (N, ..., C).
        ignore_class: the label that stands for none; None for none.
        mask: where y counts, booleans of shape (N, ...); None for everywhere.

    Returns:
        The M labels, shape (M,), and of each array what is at them, shape (M,) or (M, C).

    Raises:
        ValueError: if shapes do not go together, or no label counts.
    """
    instance("arrays", arrays, Sequence, "a list of arrays")
    labels = as_array("y", y)
    others = [as_array("arrays", array) for array in arrays]
    if others and labels.ndim == others[0].ndim > 1 and labels.shape[-1] == 1:
        labels = labels[..., 0]
    counted = np.ones(labels.shape, bool)
    if ignore_class is not None:
        counted &= labels != integer("ignore_class", ignore_class)
    if mask is not None:
        mask = as_array("mask", mask)
        if mask.dtype != bool or mask.shape != labels.shape:
            raise ValueError(
                f"mask has shape {mask.shape} and type {mask.dtype}; give booleans of the shape of "
                f"y, {labels.shape}"
            )
        counted &= mask
    for array in others:
        if array.shape[: labels.ndim] != labels.shape or array.ndim > labels.ndim + 1:
            raise ValueError(
                f"arrays has one of shape {array.shape}; y of shape {labels.shape} needs that, or "
                "one axis more"
            )
    if not counted.any():
        raise ValueError("y has no label that counts; all are ignored or masked")
    return tuple(array[counted] for array in (labels, *others))


@keras.saving.register_keras_serializable(package="tfbdl")
class OfLabelled(OfMetric):
    """A metric of the positions that have a label, in `fit` and `evaluate`.

    Metrics of this package and of Keras take labels of shape (B, ...) and outputs of (B, ..., C),
    and count each position; this one leaves out those whose label is `ignore_class`, as a loss with
    that argument does:

        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=255)
        accuracy = metrics.OfLabelled(keras.metrics.SparseCategoricalAccuracy(), 255)
        model.compile("adam", loss, metrics=[accuracy])

    Left-out labels become 0, with a sample weight of 0.

    Args:
        metric: a metric of integer labels and outputs that takes sample weights; or one of this
            package that keeps scores, such as `ErrorAUROC`.
        ignore_class: the label that stands for none.
        name: the name in logs; by default that of `metric`.

    Raises:
        ValueError: if `metric` is no metric, or `ignore_class` no integer.
    """

    def __init__(
        self, metric: keras.metrics.Metric, ignore_class: int, name: str | None = None
    ) -> None:
        super().__init__(metric, name, "keras.metrics.SparseCategoricalAccuracy()")
        self.ignore_class = integer("ignore_class", ignore_class)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds a batch.

        Args:
            y_true: integer labels, shape (B, ...); an axis of length 1 may end them.
            y_pred: outputs, shape (B, ..., C).
            sample_weight: weights of examples, (B,), or positions, (B, ...), or None.
        """
        y, outputs = tf.convert_to_tensor(y_true), tf.convert_to_tensor(y_pred)
        if y.shape.rank == outputs.shape.rank and y.shape[-1] == 1:
            y = y[..., 0]
        counted = tf.cast(y, tf.float64) != float(self.ignore_class)
        if keras_mask(y_pred) is not None:
            counted &= mask_at_positions(y_pred)
        y = tf.where(counted, y, tf.zeros_like(y))
        keeps = isinstance(getattr(self.metric, "metric", self.metric), KeptScores)
        if keeps and sample_weight is None:
            self.metric.update_state(y, with_mask(outputs, counted))
            return
        kind = getattr(self.metric, "metric", self.metric).dtype
        weights = tf.cast(counted, kind if "int" in kind else tf.float32)
        if sample_weight is not None:
            given = tf.cast(sample_weight, weights.dtype)
            for _ in range(weights.shape.rank - given.shape.rank):
                given = given[..., tf.newaxis]
            weights *= given
        self.metric.update_state(y, outputs, weights)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "ignore_class": self.ignore_class}
