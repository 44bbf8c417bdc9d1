"""Scores of predicted real numbers, over batches."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import boolean
from tfbdl.metrics import array_checks, tensor_checks


@keras.saving.register_keras_serializable(package="tfbdl")
class IntervalCoverage(keras.metrics.Mean):
    """`interval_coverage` over batches.

    The outputs have shape (B, 2 D): D lower ends and D upper ends; the targets have shape (B, D),
    or (B,) for D = 1. `sample_weight` is taken, as Keras' own metrics do.

    Args:
        name: the name in logs.
        dtype: the type of the sums; float64 by default, so that they are exact over many batches.
    """

    def __init__(self, name: str = "interval_coverage", dtype: str = "float64") -> None:
        super().__init__(**array_checks.of_keras(name, dtype))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds a batch.

        Args:
            y_true: targets, shape (B, D).
            y_pred: intervals, shape (B, 2 D).
            sample_weight: a weight an example, or None.
        """
        y, lower, upper = tensor_checks.halves(y_true, y_pred, "D lower ends, then D upper ends")
        width = tensor_checks.refuse(
            upper - lower, lower > upper, "y_pred has a lower end above its upper"
        )
        covered = tf.cast((lower <= y) & (y <= upper), width.dtype)
        _weighted(super(), tensor_checks.unless_nan(width, covered), sample_weight)


@keras.saving.register_keras_serializable(package="tfbdl")
class NormalCRPS(keras.metrics.Mean):
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
        super().__init__(**array_checks.of_keras(name, dtype))
        self.from_raw = boolean("from_raw", from_raw)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds a batch.

        Args:
            y_true: targets, shape (B, D).
            y_pred: means and scales, shape (B, 2 D).
            sample_weight: a weight an example, or None.
        """
        y, mean, stddev = tensor_checks.halves(
            y_true, y_pred, "D means, then D standard deviations"
        )
        if self.from_raw:
            stddev = tf.math.softplus(stddev) + 1e-6
        stddev = tensor_checks.refuse(
            stddev, stddev <= 0, "y_pred has a standard deviation that is not positive"
        )
        error = y - mean
        z = error / stddev
        density = tf.exp(-0.5 * tf.square(z)) / math.sqrt(2.0 * math.pi)
        of_z = tf.math.erf(tf.clip_by_value(z, -10.0, 10.0) / math.sqrt(2.0))  # NaN far outside
        of_width = stddev * (2.0 * density - 1.0 / math.sqrt(math.pi))
        _weighted(super(), error * of_z + of_width, sample_weight)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "from_raw": self.from_raw}


@keras.saving.register_keras_serializable(package="tfbdl")
class SampleCRPS(keras.metrics.Mean):
    """`crps_samples` over batches.

    The outputs are S samples of each target: shape (B, S, D) for targets of shape (B, D), or
    (B, S) for targets of shape (B,) or (B, 1). `sample_weight` is taken, as Keras' own metrics do.

    Args:
        name: the name in logs.
        dtype: the type of the sums; float64 by default, so that they are exact over many batches.
    """

    def __init__(self, name: str = "sample_crps", dtype: str = "float64") -> None:
        super().__init__(**array_checks.of_keras(name, dtype))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds a batch.

        Args:
            y_true: targets, shape (B, D).
            y_pred: samples, shape (B, S, D).
            sample_weight: a weight an example, or None.
        """
        y, samples = tensor_checks.samples_of(y_true, y_pred)
        deviations = tf.sort(samples - y[:, tf.newaxis], axis=1)
        size = tf.shape(deviations)[1]
        ranks = tf.cast(2 * tf.range(1, size + 1) - size - 1, deviations.dtype)
        spread = tf.einsum("s,bsd->bd", ranks, deviations) / tf.cast(size, ranks.dtype) ** 2
        values = tf.reduce_mean(tf.abs(deviations), axis=1) - spread
        _weighted(super(), values, sample_weight)


def _weighted(mean: Any, values: tf.Tensor, sample_weight: Any) -> None:
    """Adds values, shape (B, D), to a mean of Keras."""
    if sample_weight is not None:
        sample_weight = tensor_checks.weights_of(sample_weight, values)
    mean.update_state(values, sample_weight)
