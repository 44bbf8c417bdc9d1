"""Agreement of predictions with a reference, such as Hamiltonian Monte Carlo."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from tfbdl.examples import as_array
from tfbdl.metrics import array_checks, tensor_checks
from tfbdl.metrics.array_or_tensor import operations
from tfbdl.metrics.means import ClassMean


def agreement(p: ArrayLike, reference: ArrayLike) -> float:
    """Share of examples for which both predict the same class (Wilson et al. 2021).

    Where several classes are equally probable, the first is the predicted one.

    Args:
        p: class probabilities, shape (N, C); or P(y = 1), shape (N,) or (N, 1).
        reference: the probabilities of the reference, of the same examples and classes.

    Raises:
        ValueError: if either are no probabilities, or their shapes differ.
    """
    return float(same_class(*_pair(p, reference)).mean())


def total_variation(p: ArrayLike, reference: ArrayLike) -> float:
    """Mean of 1/2 sum_c |p_c - reference_c|, in [0, 1] (Wilson et al. 2021).

    Args:
        p: class probabilities, shape (N, C); or P(y = 1), shape (N,) or (N, 1).
        reference: the probabilities of the reference, of the same examples and classes.

    Raises:
        ValueError: if either are no probabilities, or their shapes differ.
    """
    return float(distance(*_pair(p, reference)).mean())


def same_class(p: Any, reference: Any) -> Any:
    """Whether both predict the same class, shape (N,), from (N, C)."""
    ops = operations(p)
    return ops.equal(ops.argmax(p, axis=-1), ops.argmax(reference, axis=-1))


def distance(p: Any, reference: Any) -> Any:
    """1/2 sum_c |p_c - reference_c|, shape (N,), from (N, C)."""
    return 0.5 * operations(p).sum(abs(p - reference), axis=-1)


def _pair(p: ArrayLike, reference: ArrayLike) -> list[np.ndarray]:
    p, reference = as_array("p", p), as_array("reference", reference)
    if p.ndim > 2 and p.shape == reference.shape:
        p, reference = (values.reshape(-1, values.shape[-1]) for values in (p, reference))
    p = array_checks.probabilities("p", p)
    return array_checks.alike(p=p, reference=array_checks.probabilities("reference", reference))


@keras.saving.register_keras_serializable(package="tfbdl")
class Agreement(ClassMean):
    """`agreement` over batches; arguments as in `ClassMean`.

    The targets are the reference's class probabilities, shape (B, C), never logits.
    """

    def __init__(
        self, from_logits: bool = False, name: str = "agreement", dtype: str = "float64"
    ) -> None:
        super().__init__(from_logits, name, dtype)

    def values(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        p, reference = _batch_pair(y_true, y_pred, self.from_logits)
        same = tf.cast(same_class(p, reference), p.dtype)
        return tensor_checks.unless_nan(tf.reduce_sum(p - reference, axis=-1), same)


@keras.saving.register_keras_serializable(package="tfbdl")
class TotalVariation(ClassMean):
    """`total_variation` over batches; arguments as in `ClassMean`.

    The targets are the reference's class probabilities, shape (B, C), never logits.
    """

    def __init__(
        self, from_logits: bool = False, name: str = "total_variation", dtype: str = "float64"
    ) -> None:
        super().__init__(from_logits, name, dtype)

    def values(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        return distance(*_batch_pair(y_true, y_pred, self.from_logits))


def _batch_pair(y_true: Any, y_pred: Any, from_logits: bool) -> tuple[tf.Tensor, tf.Tensor]:
    p = tensor_checks.class_probabilities(y_pred, from_logits)
    reference = tensor_checks.class_probabilities(y_true, False, "y_true")
    if not p.shape.is_compatible_with(reference.shape):
        raise ValueError(
            f"y_true has shape {tuple(reference.shape)} and y_pred has shape {tuple(p.shape)}; "
            "give the reference's probabilities of the same classes"
        )
    return p, reference
