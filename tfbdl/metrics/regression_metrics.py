"""Scores of predicted real numbers, over batches."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import boolean, number
from tfbdl.metrics import crps, intervals, tensor_checks
from tfbdl.metrics.example_mean import ExampleMean


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
        covered = tf.cast(intervals.covered(y, lower, upper), y.dtype)
        return tensor_checks.unless_nan(upper - lower, covered)


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
        return intervals.score(*_with_intervals(y_true, y_pred), self.level)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "level": self.level}


@keras.saving.register_keras_serializable(package="tfbdl")
class NormalCRPS(ExampleMean):
    """`crps_normal` over batches.

    The outputs have shape (B, 2 D): D means and D standard deviations; the targets have shape
    (B, D), or (B,) for D = 1. `sample_weight` is taken, as Keras' own metrics do.

    Args:
        from_raw: whether the second half are raw scales, whose softplus (and 1e-6) is the
            standard deviation, as `tfbdl.likelihoods.Normal("predicted")` has it; standard
            deviations by default.
        name: the name in logs.
        dtype: the type of the sums; float64 by default, so that they are exact over many batches.
    """

    def __init__(
        self, from_raw: bool = False, name: str = "normal_crps", dtype: str = "float64"
    ) -> None:
        super().__init__(name, dtype)
        self.from_raw = boolean("from_raw", from_raw)

    def values(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        y, mean, stddev = tensor_checks.halves(
            y_true, y_pred, "D means, then D standard deviations"
        )
        if self.from_raw:
            stddev = tf.math.softplus(stddev) + 1e-6
        stddev = tensor_checks.refuse(
            stddev, stddev <= 0, "y_pred has a standard deviation that is not positive"
        )
        return crps.of_normal(y, mean, stddev)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "from_raw": self.from_raw}


@keras.saving.register_keras_serializable(package="tfbdl")
class SampleCRPS(ExampleMean):
    """`crps_samples` over batches.

    The outputs are S samples of each target: shape (B, S, D) for targets of shape (B, D), or
    (B, S) for targets of shape (B,) or (B, 1). `sample_weight` is taken, as Keras' own metrics do.

    Args:
        fair: whether the score is unbiased for the law that the samples come from (Ferro 2014),
            which needs two of them; else it is that of the law that they make.
        name: the name in logs.
        dtype: the type of the sums; float64 by default, so that they are exact over many batches.

    Raises:
        ValueError: if `fair` is no truth value.
    """

    def __init__(
        self, fair: bool = False, name: str = "sample_crps", dtype: str = "float64"
    ) -> None:
        super().__init__(name, dtype)
        self.fair = boolean("fair", fair)

    def values(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        y, samples = tensor_checks.samples_of(y_true, y_pred)
        if self.fair and samples.shape[1] == 1:
            raise ValueError("fair=True needs two samples at least; y_pred has one of each target")
        return crps.of_samples(y, samples, axis=1, fair=self.fair)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "fair": self.fair}


def _with_intervals(y_true: Any, y_pred: Any) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Targets, lower and upper ends, shape (B, D), from outputs (B, 2 D)."""
    y, lower, upper = tensor_checks.halves(y_true, y_pred, "D lower ends, then D upper ends")
    message = "y_pred has a lower end above its upper"
    return y, tensor_checks.refuse(lower, lower > upper, message), upper
