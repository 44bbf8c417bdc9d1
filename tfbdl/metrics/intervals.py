"""Intervals predicted for real numbers: how often they cover, and how good they are.

Arrays may have any shape, all arguments the same one; means are over all of their elements.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from tfbdl.arguments import number
from tfbdl.metrics import array_checks, tensor_checks
from tfbdl.metrics.array_or_tensor import operations
from tfbdl.metrics.means import ExampleMean


def interval_coverage(y: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> float:
    """Share of the targets with lower <= y <= upper.

    Args:
        y: targets, shape (N, ...).
        lower: lower ends of the intervals, of the shape of y.
        upper: upper ends, of the shape of y.

    Raises:
        ValueError: if the shapes differ, a value is not finite, or a lower end is above its upper.
    """
    y, lower, upper = array_checks.alike(y=y, lower=lower, upper=upper)
    _check_interval(lower, upper)
    return float(np.mean(covered(y, lower, upper)))


def interval_width(lower: ArrayLike, upper: ArrayLike) -> float:
    """Mean of upper - lower, in the units of the targets.

    Args:
        lower: lower ends of the intervals, shape (N, ...).
        upper: upper ends, of the same shape.

    Raises:
        ValueError: if the shapes differ, a value is not finite, or a lower end is above its upper.
    """
    lower, upper = array_checks.alike(lower=lower, upper=upper)
    _check_interval(lower, upper)
    return float(np.mean(upper - lower))


def interval_score(y: ArrayLike, lower: ArrayLike, upper: ArrayLike, level: float = 0.95) -> float:
    """Mean score of central intervals at `level`, in the units of y; small is good.

    The width, and 2 / (1 - level) times the distance by which y is outside (Gneiting and Raftery
    2007, equation 43). It is proper: the true quantiles have the least expectation.

    Args:
        y: targets, shape (N, ...).
        lower: lower ends of the intervals, of the shape of y.
        upper: upper ends, of the shape of y.
        level: the probability that the intervals claim, in (0, 1).

    Raises:
        ValueError: if the shapes differ, a value is not finite, a lower end is above its upper, or
            `level` is out of range.
    """
    level = number("level", level, lambda v: 0 < v < 1, "in (0, 1)")
    y, lower, upper = array_checks.alike(y=y, lower=lower, upper=upper)
    _check_interval(lower, upper)
    return float(np.mean(scores(y, lower, upper, level)))


def covered(y: Any, lower: Any, upper: Any) -> Any:
    """Whether lower <= y <= upper; all of one shape."""
    return (lower <= y) & (y <= upper)


def scores(y: Any, lower: Any, upper: Any, level: float) -> Any:
    """The `interval_score` of each target, all of one shape."""
    ops = operations(y)
    outside = ops.maximum(lower - y, 0.0) + ops.maximum(y - upper, 0.0)
    return upper - lower + 2.0 / (1.0 - level) * outside


@keras.saving.register_keras_serializable(package="tfbdl")
class IntervalCoverage(ExampleMean):
    """`interval_coverage` over batches.

    The outputs have shape (B, 2 D): D lower ends and D upper ends; the targets have shape (B, D),
    or (B,) for D = 1. `sample_weight` is taken, as Keras' own metrics do.

    Args:
        name: the name in logs.
        dtype: the type of the sums; float64 by default, so that they are exact over many batches.
    """

    def __init__(self, name: str = "interval_coverage", dtype: str = "float64") -> None:
        super().__init__(name, dtype)

    def values(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        y, lower, upper = _with_intervals(y_true, y_pred)
        inside = tf.cast(covered(y, lower, upper), y.dtype)
        return tensor_checks.unless_nan(upper - lower, inside)


@keras.saving.register_keras_serializable(package="tfbdl")
class IntervalScore(ExampleMean):
    """`interval_score` over batches, of central intervals.

    Outputs, targets and `sample_weight` as in `IntervalCoverage`.

    Args:
        level: the probability that the intervals claim, in (0, 1).
        name: the name in logs.
        dtype: the type of the sums; float64 by default, so that they are exact over many batches.

    Raises:
        ValueError: if `level` is out of range.
    """

    def __init__(
        self, level: float = 0.95, name: str = "interval_score", dtype: str = "float64"
    ) -> None:
        super().__init__(name, dtype)
        self.level = number("level", level, lambda v: 0 < v < 1, "in (0, 1)")

    def values(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        return scores(*_with_intervals(y_true, y_pred), self.level)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "level": self.level}


def _check_interval(lower: np.ndarray, upper: np.ndarray) -> None:
    wrong = lower > upper
    if wrong.any():
        raise ValueError(
            f"lower has {array_checks.first(lower, wrong)}, where upper has "
            f"{upper[wrong][0]:g}; give lower <= upper"
        )


def _with_intervals(y_true: Any, y_pred: Any) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Targets, lower and upper ends, shape (B, D), from outputs (B, 2 D)."""
    y, lower, upper = tensor_checks.halves(y_true, y_pred, "D lower ends, then D upper ends")
    message = "y_pred has a lower end above its upper"
    return y, tensor_checks.refuse(lower, lower > upper, message), upper
