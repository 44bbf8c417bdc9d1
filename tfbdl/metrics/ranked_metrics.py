"""Metrics of a classifier that rank its predictions by their confidence."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from tfbdl.arguments import boolean
from tfbdl.metrics import detection, tensor_checks
from tfbdl.metrics.bins import number_of_bins
from tfbdl.metrics.calibration import adaptive_error, debiased_error
from tfbdl.metrics.kept_scores import KeptScores
from tfbdl.metrics.tensor_positions import as_examples


class RankedMetric(KeptScores):
    """A value of the confidences max_c p_c, and of which predictions are right.

    Memory, XLA, and weights are as in `KeptScores`.

    Args:
        from_logits: whether the outputs are logits; probabilities by default.
        name: the name in logs.
        dtype: the type of the result.
    """

    def __init__(
        self, from_logits: bool = False, name: str | None = None, dtype: str = "float64"
    ) -> None:
        super().__init__(name, dtype)
        self.from_logits = boolean("from_logits", from_logits)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Keeps a batch.

        Args:
            y_true: integer labels, shape (B,) or (B, 1); or (B, ...) of positions.
            y_pred: class probabilities or logits, shape (B, C) or (B, ..., C); or of class 1,
                shape (B, 1).
            sample_weight: must be None.

        Raises:
            ValueError: if there is a sample_weight.
        """
        y_true, y_pred, counted = as_examples(y_true, y_pred)
        p = tensor_checks.class_probabilities(y_pred, self.from_logits)
        confidence, correct = tensor_checks.confidences(*tensor_checks.labels(y_true, p))
        if counted is not None:
            confidence, correct = (v[counted > 0] for v in (confidence, correct))
        self.keep(-confidence, 1.0 - correct, sample_weight)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "from_logits": self.from_logits}


class RankedInBins(RankedMetric):
    """A `RankedMetric` in bins of as many examples each.

    Args:
        num_bins: the number of them.
        from_logits: whether the outputs are logits; probabilities by default.
        name: the name in logs.
        dtype: the type of the result.

    Raises:
        ValueError: if num_bins is no positive integer.
    """

    def __init__(self, num_bins: int, from_logits: bool, name: str | None, dtype: str) -> None:
        super().__init__(from_logits, name, dtype)
        self.num_bins = number_of_bins(num_bins)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_bins": self.num_bins}


@keras.saving.register_keras_serializable(package="tfbdl")
class AdaptiveCalibrationError(RankedInBins):
    """`adaptive_calibration_error` over batches; arguments as in `RankedMetric`, and num_bins.

    Raises:
        ValueError: if num_bins is no positive integer.
    """

    def __init__(
        self,
        num_bins: int = 15,
        from_logits: bool = False,
        name: str = "adaptive_calibration_error",
        dtype: str = "float64",
    ) -> None:
        super().__init__(num_bins, from_logits, name, dtype)

    def value(self, flags: np.ndarray, scores: np.ndarray) -> float:
        return adaptive_error(-scores, ~flags, self.num_bins)


@keras.saving.register_keras_serializable(package="tfbdl")
class DebiasedCalibrationError(RankedInBins):
    """`debiased_calibration_error` over batches; arguments as in `RankedMetric`, and num_bins.

    The result is NaN until a bin has two examples.

    Raises:
        ValueError: if num_bins is no positive integer.
    """

    def __init__(
        self,
        num_bins: int = 15,
        from_logits: bool = False,
        name: str = "debiased_calibration_error",
        dtype: str = "float64",
    ) -> None:
        super().__init__(num_bins, from_logits, name, dtype)

    def value(self, flags: np.ndarray, scores: np.ndarray) -> float:
        return debiased_error(-scores, ~flags, self.num_bins)


@keras.saving.register_keras_serializable(package="tfbdl")
class ErrorAUROC(RankedMetric):
    """`error_auroc` over batches, of the uncertainty -max_c p_c; arguments as in `RankedMetric`.

    The result is NaN until there are both errors and right predictions.
    """

    def __init__(
        self, from_logits: bool = False, name: str = "error_auroc", dtype: str = "float64"
    ) -> None:
        super().__init__(from_logits, name, dtype)

    value = staticmethod(detection.area_of_flags)


@keras.saving.register_keras_serializable(package="tfbdl")
class ErrorAUPR(RankedMetric):
    """`error_aupr` over batches, of the uncertainty -max_c p_c; arguments as in `RankedMetric`.

    The result is NaN until there are errors.
    """

    def __init__(
        self, from_logits: bool = False, name: str = "error_aupr", dtype: str = "float64"
    ) -> None:
        super().__init__(from_logits, name, dtype)

    value = staticmethod(detection.precision_of_flags)


@keras.saving.register_keras_serializable(package="tfbdl")
class AreaUnderRiskCoverage(RankedMetric):
    """`area_under_risk_coverage` over batches, of the uncertainty -max_c p_c.

    Arguments as in `RankedMetric`.
    """

    def __init__(
        self,
        from_logits: bool = False,
        name: str = "area_under_risk_coverage",
        dtype: str = "float64",
    ) -> None:
        super().__init__(from_logits, name, dtype)

    value = staticmethod(detection.area)


@keras.saving.register_keras_serializable(package="tfbdl")
class AreaUnderGeneralizedRiskCoverage(RankedMetric):
    """`area_under_generalized_risk_coverage` over batches, of the uncertainty -max_c p_c.

    Arguments as in `RankedMetric`.
    """

    def __init__(
        self,
        from_logits: bool = False,
        name: str = "area_under_generalized_risk_coverage",
        dtype: str = "float64",
    ) -> None:
        super().__init__(from_logits, name, dtype)

    value = staticmethod(detection.generalized_area)


@keras.saving.register_keras_serializable(package="tfbdl")
class ExcessAreaUnderRiskCoverage(RankedMetric):
    """`excess_area_under_risk_coverage` over batches, of the uncertainty -max_c p_c.

    Arguments as in `RankedMetric`.
    """

    def __init__(
        self,
        from_logits: bool = False,
        name: str = "excess_area_under_risk_coverage",
        dtype: str = "float64",
    ) -> None:
        super().__init__(from_logits, name, dtype)

    value = staticmethod(detection.excess_area)
