"""Proper scores of class probabilities: the log score and the Brier score."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from numpy.typing import ArrayLike

from tfbdl.metrics import array_checks, tensor_checks
from tfbdl.metrics.array_or_tensor import log, operations
from tfbdl.metrics.means import ClassMean


def negative_log_likelihood(y: ArrayLike, p: ArrayLike) -> float:
    """Mean of -log p[y], in nats per example.

    Nothing is clipped: a label that was given probability 0 makes it infinite, as the score says
    of a forecast that calls impossible what happens. Probabilities that only underflowed to 0 in
    float32 do so too; `NegativeLogLikelihood(from_logits=True)` is finite for all logits.

    Args:
        y: integer labels, shape (N,), or (N, ...) of positions, each of which is an example.
        p: class probabilities, shape (N, C) or (N, ..., C); or P(y = 1), shape (N,) or (N, 1).

    Raises:
        ValueError: if y are no labels or p no probabilities.
    """
    return float(log_scores(*array_checks.classes(y, p)).mean())


def brier_score(y: ArrayLike, p: ArrayLike) -> float:
    """Mean of sum_c (p_c - 1[y = c])^2, between 0 and 2 (Brier 1950).

    For two classes it is twice the score that counts class 1 alone.

    Args:
        y: integer labels, shape (N,), or (N, ...) of positions, each of which is an example.
        p: class probabilities, shape (N, C) or (N, ..., C); or P(y = 1), shape (N,) or (N, 1).

    Raises:
        ValueError: if y are no labels or p no probabilities.
    """
    return float(squared_errors(*array_checks.classes(y, p)).mean())


def log_scores(label: Any, outputs: Any, from_logits: bool = False) -> Any:
    """-log p[y] of each example, from labels (N,) and probabilities, or logits, (N, C)."""
    rows = tf.nn.log_softmax(outputs) if from_logits else outputs
    of_label = operations(rows).take_along_axis(rows, label[:, None], axis=1)[:, 0]
    return -(of_label if from_logits else log(of_label))


def squared_errors(label: Any, p: Any) -> Any:
    """sum_c (p_c - 1[y = c])^2 of each example, from labels (N,) and probabilities (N, C)."""
    ops = operations(p)
    is_label = ops.equal(label[:, None], ops.arange(ops.shape(p)[1]))
    return ops.sum(ops.square(ops.where(is_label, 1.0 - p, p)), axis=-1)


@keras.saving.register_keras_serializable(package="tfbdl")
class NegativeLogLikelihood(ClassMean):
    """`negative_log_likelihood` over batches, in nats; arguments as in `ClassMean`."""

    def __init__(
        self,
        from_logits: bool = False,
        name: str = "negative_log_likelihood",
        dtype: str = "float64",
    ) -> None:
        super().__init__(from_logits, name, dtype)

    def values(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        outputs = tensor_checks.class_outputs(y_pred, self.from_logits)
        label, outputs = tensor_checks.labels(y_true, outputs)
        scores = log_scores(label, outputs, self.from_logits)
        return tensor_checks.unless_nan(tf.reduce_sum(outputs, axis=-1), scores)


@keras.saving.register_keras_serializable(package="tfbdl")
class BrierScore(ClassMean):
    """`brier_score` over batches; arguments as in `ClassMean`."""

    def __init__(
        self, from_logits: bool = False, name: str = "brier_score", dtype: str = "float64"
    ) -> None:
        super().__init__(from_logits, name, dtype)

    def values(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        p = tensor_checks.class_probabilities(y_pred, self.from_logits)
        return squared_errors(*tensor_checks.labels(y_true, p))
