"""Calibration errors over batches, from sums per bin."""

from __future__ import annotations

import keras
import tensorflow as tf

from tfbdl.metrics import tensor_checks
from tfbdl.metrics.binned_classes import BinnedClasses
from tfbdl.metrics.binned_metric import BinnedMetric
from tfbdl.metrics.calibration import gaps, largest_gap, mean_gap


class BinnedCalibration(BinnedMetric):
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

    sums = ("weight", "gap")
    summands = staticmethod(gaps)

    def __init__(
        self,
        num_bins: int = 15,
        from_logits: bool = False,
        name: str | None = None,
        dtype: str = "float64",
    ) -> None:
        super().__init__(num_bins, from_logits, name, dtype)
        self.add_sums((self.num_bins,))

    def events(self, label: tf.Tensor, p: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        confidence, correct = tensor_checks.confidences(label, p)
        return confidence[:, None], correct[:, None]


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
        return mean_gap(*self.totals())[0]


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
        return tensor_checks.unless_nan(tf.reduce_sum(self.gap), largest_gap(*self.totals())[0])


@keras.saving.register_keras_serializable(package="tfbdl")
class ClasswiseCalibrationError(BinnedClasses):
    """`classwise_calibration_error` over batches; arguments as in `BinnedClasses`."""

    sums = ("weight", "gap")
    summands = staticmethod(gaps)

    def __init__(
        self,
        num_classes: int,
        num_bins: int = 15,
        from_logits: bool = False,
        name: str = "classwise_calibration_error",
        dtype: str = "float64",
    ) -> None:
        super().__init__(num_classes, num_bins, from_logits, name, dtype)

    def result(self) -> tf.Tensor:
        return tf.reduce_mean(mean_gap(*self.totals()))
