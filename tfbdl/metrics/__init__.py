"""Metrics of predictions and of their uncertainties: functions of arrays, and Keras metrics.

The functions take all examples at once; the metrics of the same name, in capitals, take batches
and give the same value.
"""

from __future__ import annotations

from tfbdl.metrics.agreement import Agreement, TotalVariation, agreement, total_variation
from tfbdl.metrics.bootstrap import confidence_interval
from tfbdl.metrics.brier_decomposition import (
    BrierComponents,
    BrierDecomposition,
    brier_decomposition,
)
from tfbdl.metrics.calibration import (
    ClasswiseCalibrationError,
    ExpectedCalibrationError,
    MaximumCalibrationError,
    Reliability,
    adaptive_calibration_error,
    classwise_calibration_error,
    debiased_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    reliability,
)
from tfbdl.metrics.crps import NormalCRPS, SampleCRPS, crps_normal, crps_samples
from tfbdl.metrics.detection import (
    RiskCoverage,
    area_under_generalized_risk_coverage,
    area_under_risk_coverage,
    aupr,
    auroc,
    error_aupr,
    error_auroc,
    excess_area_under_risk_coverage,
    false_positive_rate,
    risk_coverage,
)
from tfbdl.metrics.detection_metrics import AUPR, AUROC, FalsePositiveRate
from tfbdl.metrics.dirichlet_calibration import DirichletMap, apply_dirichlet, fit_dirichlet
from tfbdl.metrics.intervals import (
    IntervalCoverage,
    IntervalScore,
    interval_coverage,
    interval_score,
    interval_width,
)
from tfbdl.metrics.isotonic import IsotonicMap, apply_isotonic, fit_isotonic
from tfbdl.metrics.labelled import OfLabelled, labelled
from tfbdl.metrics.of_mean import OfMean
from tfbdl.metrics.quantile_calibration import (
    probability_integral_transform,
    quantile_calibration_error,
)
from tfbdl.metrics.ranked_metrics import (
    AdaptiveCalibrationError,
    AreaUnderGeneralizedRiskCoverage,
    AreaUnderRiskCoverage,
    DebiasedCalibrationError,
    ErrorAUPR,
    ErrorAUROC,
    ExcessAreaUnderRiskCoverage,
)
from tfbdl.metrics.scores import (
    BrierScore,
    NegativeLogLikelihood,
    brier_score,
    negative_log_likelihood,
)
from tfbdl.metrics.temperature import apply_temperature, fit_temperature
from tfbdl.metrics.vector_scaling import (
    VectorScaling,
    apply_vector_scaling,
    fit_vector_scaling,
)

__all__ = [
    "AUPR",
    "AUROC",
    "AdaptiveCalibrationError",
    "Agreement",
    "AreaUnderGeneralizedRiskCoverage",
    "AreaUnderRiskCoverage",
    "BrierComponents",
    "BrierDecomposition",
    "BrierScore",
    "ClasswiseCalibrationError",
    "DebiasedCalibrationError",
    "DirichletMap",
    "ErrorAUPR",
    "ErrorAUROC",
    "ExcessAreaUnderRiskCoverage",
    "ExpectedCalibrationError",
    "FalsePositiveRate",
    "IntervalCoverage",
    "IntervalScore",
    "IsotonicMap",
    "MaximumCalibrationError",
    "NegativeLogLikelihood",
    "NormalCRPS",
    "OfLabelled",
    "OfMean",
    "Reliability",
    "RiskCoverage",
    "SampleCRPS",
    "TotalVariation",
    "VectorScaling",
    "adaptive_calibration_error",
    "agreement",
    "apply_dirichlet",
    "apply_isotonic",
    "apply_temperature",
    "apply_vector_scaling",
    "area_under_generalized_risk_coverage",
    "area_under_risk_coverage",
    "aupr",
    "auroc",
    "brier_decomposition",
    "brier_score",
    "classwise_calibration_error",
    "confidence_interval",
    "crps_normal",
    "crps_samples",
    "debiased_calibration_error",
    "error_aupr",
    "error_auroc",
    "excess_area_under_risk_coverage",
    "expected_calibration_error",
    "false_positive_rate",
    "fit_dirichlet",
    "fit_isotonic",
    "fit_temperature",
    "fit_vector_scaling",
    "interval_coverage",
    "interval_score",
    "interval_width",
    "labelled",
    "maximum_calibration_error",
    "negative_log_likelihood",
    "probability_integral_transform",
    "quantile_calibration_error",
    "reliability",
    "risk_coverage",
    "total_variation",
]
