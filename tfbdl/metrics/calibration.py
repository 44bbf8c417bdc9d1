"""Calibration: whether predictions of confidence c are right in a share c of cases.

The confidence is the largest class probability, max_c p_c, of two classes too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from tfbdl.metrics import array_checks, tensor_checks
from tfbdl.metrics.array_or_tensor import operations, ratio
from tfbdl.metrics.binned_metric import BinnedClasses, BinnedMetric
from tfbdl.metrics.bins import number_of_bins, of_events, sums_in_bins
from tfbdl.metrics.classifier import top_class
from tfbdl.metrics.ties import average_over_ties


@dataclass(frozen=True, eq=False)
class Reliability:
    """The data of a reliability diagram, see `reliability`.

    Attributes:
        confidence: mean confidence in each bin, shape (num_bins,); NaN in an empty one.
        accuracy: share of right predictions in each bin, shape (num_bins,); NaN in an empty one.
        count: examples in each bin, shape (num_bins,).
    """

    confidence: np.ndarray
    accuracy: np.ndarray
    count: np.ndarray


def reliability(y: ArrayLike, p: ArrayLike, num_bins: int = 15) -> Reliability:
    """Confidence and accuracy in equal bins of [0, 1], for a reliability diagram.

    Args:
        y: integer labels, shape (N,), or (N, ...) of positions, each of which is an example.
        p: class probabilities, shape (N, C) or (N, ..., C); or P(y = 1), shape (N,) or (N, 1).
        num_bins: bins of the confidence, each closed on the right; 15 as in Guo et al. 2017.

    Raises:
        ValueError: if y are no labels, p no probabilities, or num_bins no positive integer.
    """
    confidence, correct = _being_right(y, p)
    values = (np.ones_like(confidence), confidence, correct)
    sums = sums_in_bins(confidence, number_of_bins(num_bins), values)
    count, confidence, correct = np.concatenate(sums)
    per_example = np.where(count > 0.0, count, np.nan)
    return Reliability(confidence / per_example, correct / per_example, count.astype(np.int64))


def expected_calibration_error(y: ArrayLike, p: ArrayLike, num_bins: int = 15) -> float:
    """Mean over examples of |accuracy - confidence| of their bin, in [0, 1] (Guo 2017, eq. 3).

    Arguments and errors as in `reliability`.
    """
    return float(of_events(gaps, mean_gap, *_being_right(y, p), num_bins).mean())


def maximum_calibration_error(y: ArrayLike, p: ArrayLike, num_bins: int = 15) -> float:
    """The largest |accuracy - confidence| of a bin that is not empty (Guo 2017, eq. 5).

    Arguments and errors as in `reliability`.
    """
    return float(of_events(gaps, largest_gap, *_being_right(y, p), num_bins).mean())


def adaptive_calibration_error(y: ArrayLike, p: ArrayLike, num_bins: int = 15) -> float:
    """The calibration error in bins of as many examples each (Nixon et al. 2019), in [0, 1].

    The examples are sorted by confidence and cut into `num_bins` runs whose lengths differ by one
    at most; with fewer examples than bins, each is a bin of its own. Examples of equal confidence
    that lie across a cut count as right by the share of them that is, on each side of it, so that
    their order does not matter. Nixon et al. sum over all classes; here it is the top class
    alone, as in the other errors.

    Arguments and errors as in `reliability`.
    """
    num_bins = number_of_bins(num_bins)
    return adaptive_error(*top_class(*array_checks.classes(y, p)), num_bins)


def classwise_calibration_error(y: ArrayLike, p: ArrayLike, num_bins: int = 15) -> float:
    """Mean over classes c of the calibration error of P(y = c), in [0, 1].

    For each class the mean over examples of |share of c - mean of p_c| of their bin of p_c (Kull et
    al. 2019, equation 3).

    Arguments and errors as in `reliability`.
    """
    errors = of_events(gaps, mean_gap, *array_checks.class_events(y, p), num_bins)
    return float(errors.mean())


def debiased_calibration_error(y: ArrayLike, p: ArrayLike, num_bins: int = 15) -> float:
    """Root mean square of accuracy - confidence in bins, without the part that noise adds.

    sum_b n_b / N ((a_b - c_b)^2 - a_b (1 - a_b) / (n_b - 1)) over bins of as many examples each,
    of which the root is taken, 0 if it is negative (Kumar et al. 2019, definition 5.1). The other
    errors are above 0 for a calibrated classifier; the square of this is 0 on average, but for the
    root's cut, as far as confidences within a bin are alike. Bins of one example are left out.

    Arguments and errors as in `reliability`; a ValueError, too, if no bin has two examples.
    """
    num_bins = number_of_bins(num_bins)
    confidence, correct = top_class(*array_checks.classes(y, p))
    error = debiased_error(confidence, correct, num_bins)
    if math.isnan(error):
        raise ValueError(
            f"num_bins={num_bins} leaves no bin with two of {len(correct)} examples; take fewer "
            "bins"
        )
    return error


def gaps(p: Any, outcome: Any) -> list[Any]:
    """What is summed in bins of forecasts: 1, and outcome - p, both of the shape of p, (N, K)."""
    return [operations(p).ones_like(p), outcome - p]


def mean_gap(weight: Any, gap: Any) -> Any:
    """The calibration error of K events, from the sums of `gaps` in bins, shape (K, num_bins)."""
    ops = operations(gap)
    return ratio(ops.sum(abs(gap), axis=1), ops.sum(weight, axis=1))


def largest_gap(weight: Any, gap: Any) -> Any:
    """The largest of a bin, of K events, from the sums of `gaps` in bins, shape (K, num_bins)."""
    return operations(gap).max(ratio(abs(gap), weight), axis=1)


def adaptive_error(confidence: np.ndarray, correct: np.ndarray, num_bins: int) -> float:
    """`adaptive_calibration_error` from the confidences and hits of `top_class`."""
    gaps = average_over_ties(correct, confidence) - confidence
    runs = np.array_split(gaps[np.argsort(confidence)], num_bins)
    return float(sum(abs(run.sum()) for run in runs) / len(gaps))


def debiased_error(confidence: np.ndarray, correct: np.ndarray, num_bins: int) -> float:
    """`debiased_calibration_error` from `top_class`; NaN if no bin has two examples."""
    hits = average_over_ties(correct, confidence)
    order, total, count = np.argsort(confidence), 0.0, 0
    for rows in np.array_split(order, num_bins):
        n = len(rows)
        if n > 1:
            a, c = hits[rows].mean(), confidence[rows].mean()
            total += n * ((a - c) ** 2 - a * (1.0 - a) / (n - 1))
            count += n
    return math.sqrt(max(total / count, 0.0)) if count else math.nan


def _being_right(y: ArrayLike, p: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The event that the prediction is right: confidence and outcome, shape (N, 1)."""
    confidence, correct = top_class(*array_checks.classes(y, p))
    return confidence[:, None], correct[:, None]


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
        super().__init__((number_of_bins(num_bins),), from_logits, name, dtype)

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
