"""Calibration errors over batches, from sums per bin."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import boolean
from tfbdl.metrics import array_checks, tensor_checks
from tfbdl.metrics.binned_classes import BinnedClasses
from tfbdl.metrics.bins import inner_edges, number_of_bins
from tfbdl.metrics.tensor_positions import as_examples


class BinnedCalibration(keras.metrics.Metric):
    """Sums per bin of confidence, from which a calibration error follows.

    `sample_weight` is taken: an example of weight 2 counts as two.

    Args:
        num_bins: equal bins of the confidence, each closed on the right; 15 as in Guo et al. 2017.
        from_logits: whether the outputs are logits; probabilities by default.
        name: the name in logs.
        dtype: the type of the sums; float64 by default, so that they are exact over many batches.

    Raises:
        ValueError: if num_bins is no positive integer.
    """

    def __init__(
        self,
        num_bins: int = 15,
        from_logits: bool = False,
        name: str | None = None,
        dtype: str = "float64",
    ) -> None:
        super().__init__(**array_checks.of_keras(name, dtype))
        self.num_bins = number_of_bins(num_bins)
        self.from_logits = boolean("from_logits", from_logits)
        shape = (self.num_bins,)
        self.weight = self.add_variable(shape, "zeros", dtype=self.dtype, name="weight")
        self.gap = self.add_variable(shape, "zeros", dtype=self.dtype, name="gap")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds a batch.

        Args:
            y_true: integer labels, shape (B,) or (B, 1); or (B, ...) of positions.
            y_pred: class probabilities or logits, shape (B, C) or (B, ..., C); or of class 1,
                shape (B, 1).
            sample_weight: a weight an example, or a position, or None.
        """
        y_true, y_pred, sample_weight = as_examples(y_true, y_pred, sample_weight)
        p = tensor_checks.class_probabilities(y_pred, self.from_logits)
        confidence, correct = tensor_checks.top_class(y_true, p)
        weight = tf.ones_like(confidence)
        if sample_weight is not None:
            weight *= tensor_checks.weights_of(sample_weight, weight)
        edges = tf.constant(inner_edges(self.num_bins), confidence.dtype)
        index = tf.searchsorted(edges, confidence, side="left")
        for total, values in ((self.weight, weight), (self.gap, weight * (correct - confidence))):
            sums = tf.math.unsorted_segment_sum(values, index, self.num_bins)
            total.assign(total + tf.cast(sums, self.dtype))

    def get_config(self) -> dict[str, Any]:
        config = {"num_bins": self.num_bins, "from_logits": self.from_logits}
        return {**super().get_config(), **config}


@keras.saving.register_keras_serializable(package="tfbdl")
class ExpectedCalibrationError(BinnedCalibration):
    """`expected_calibration_error` over batches; arguments as in `BinnedCalibration`."""

    def __init__(
        self,
        num_bins: int = 15,
        from_logits: bool = False,
        name: str = "expected_calibration_error",
        dtype: str = "float64",
    ) -> None:
        super().__init__(num_bins, from_logits, name, dtype)

    def result(self) -> tf.Tensor:
        gaps = tf.reduce_sum(tf.abs(self.gap))
        return tf.math.divide_no_nan(gaps, tf.reduce_sum(self.weight))


@keras.saving.register_keras_serializable(package="tfbdl")
class MaximumCalibrationError(BinnedCalibration):
    """`maximum_calibration_error` over batches; arguments as in `BinnedCalibration`."""

    def __init__(
        self,
        num_bins: int = 15,
        from_logits: bool = False,
        name: str = "maximum_calibration_error",
        dtype: str = "float64",
    ) -> None:
        super().__init__(num_bins, from_logits, name, dtype)

    def result(self) -> tf.Tensor:
        gaps = tf.math.divide_no_nan(tf.abs(self.gap), self.weight)
        return tensor_checks.unless_nan(tf.reduce_sum(gaps), tf.reduce_max(gaps))


@keras.saving.register_keras_serializable(package="tfbdl")
class ClasswiseCalibrationError(BinnedClasses):
    """`classwise_calibration_error` over batches; arguments as in `BinnedClasses`."""

    sums = ("weight", "gap")

    def __init__(
        self,
        num_classes: int,
        num_bins: int = 15,
        from_logits: bool = False,
        name: str = "classwise_calibration_error",
        dtype: str = "float64",
    ) -> None:
        super().__init__(num_classes, num_bins, from_logits, name, dtype)

    def summands(self, p: tf.Tensor, outcome: tf.Tensor) -> list[tf.Tensor]:
        return [tf.ones_like(p), outcome - p]

    def result(self) -> tf.Tensor:
        gaps = tf.reduce_sum(tf.abs(self.gap))
        return tf.math.divide_no_nan(gaps, tf.reduce_sum(self.weight))
