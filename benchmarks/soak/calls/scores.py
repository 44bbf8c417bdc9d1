"""Metrics: functions of arrays, and Keras metrics over batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from soak.calls.case import LABELS, Case, Made, N, is_true, shaped
from soak.calls.losses import LOGITS
from tfbdl import likelihoods, metrics

Y = LABELS.copy()
P, Q = np.random.default_rng(0).dirichlet(np.ones(3), (2, N))
OTHER = np.where(np.arange(N) == 1, P.argmin(axis=1), P.argmax(axis=1))
ENTROPY = -(P * np.log(P)).sum(axis=1)
REAL = np.linspace(0.0, 1.0, N)
MISTAKEN = 2.0 * np.eye(3)[[1, *Y[1:]]]


def _record(actual: Any) -> Any:
    """A result as arrays; those that are NaN by their documentation as text."""
    if isinstance(actual, metrics.Reliability):
        return {
            "count": shaped(actual.count, len(actual.count)),
            "confidence": np.nan_to_num(actual.confidence),
            "accuracy": np.nan_to_num(actual.accuracy),
        }
    if isinstance(actual, metrics.RiskCoverage):
        return {"coverage": shaped(actual.coverage, N), "risk": shaped(actual.risk, N)}
    if isinstance(actual, tuple) and hasattr(actual, "_asdict"):
        return actual._asdict()
    return vars(actual) if hasattr(actual, "__dict__") else actual


def _maps(name: str) -> tuple[Any, Any]:
    fit = getattr(metrics, f"fit_{name}")
    return fit(Y, P), fit(Y, Q)


AREAS = ("area_under_risk_coverage", "area_under_generalized_risk_coverage")
FUNCTIONS: dict[str, dict[str, tuple[Any, Any]]] = {
    **{
        name: {"y": (Y, P.argmax(axis=1)), "p": (P, Q), "num_bins": (15, 2)}
        for name in (
            "reliability",
            "expected_calibration_error",
            "maximum_calibration_error",
            "adaptive_calibration_error",
            "classwise_calibration_error",
            "brier_decomposition",
        )
    },
    **{name: {"y": (Y, OTHER), "p": (P, Q)} for name in ("negative_log_likelihood", "brier_score")},
    **{
        name: {"y": (Y, OTHER), "p": (P, Q), "uncertainty": (ENTROPY, REAL[::-1])}
        for name in ("error_auroc", "error_aupr", "risk_coverage", *AREAS)
    },
    **{
        name: {"scores_in": (REAL, REAL[:3]), "scores_out": (REAL + 0.3, REAL - 0.3)}
        for name in ("auroc", "aupr")
    },
    **{name: {"p": (P, Q), "reference": (P, Q)} for name in ("agreement", "total_variation")},
    "interval_coverage": {
        "y": (REAL, REAL + 5.0),
        "lower": (REAL - 1.0, REAL + 0.5),
        "upper": (REAL + 1.0, REAL - 0.5),
    },
    "excess_area_under_risk_coverage": {
        "y": (Y, P.argmax(axis=1)),
        "p": (P, Q),
        "uncertainty": (ENTROPY, REAL[::-1]),
    },
    "debiased_calibration_error": {
        "y": (P.argmax(axis=1), P.argmin(axis=1)),
        "p": (P, np.eye(3)[P.argmin(axis=1)]),
        "num_bins": (1, 2),
    },
    "interval_score": {
        "y": (REAL + 1.0, REAL + 5.0),
        "lower": (REAL - 1.0, REAL + 0.5),
        "upper": (REAL + 0.6, REAL + 2.0),
        "level": (0.95, 0.5),
    },
    "false_positive_rate": {
        "scores_in": (REAL, REAL[:3]),
        "scores_out": (REAL + 0.3, REAL - 0.3),
        "true_positive_rate": (0.95, 0.5),
    },
    "labelled": {
        "y": (Y, OTHER),
        "arrays": ([REAL], [REAL + 0.3]),
        "ignore_class": (1, 0),
        "mask": (None, np.arange(N) > 1),
    },
    "quantile_calibration_error": {"pit": (REAL, REAL**2), "num_levels": (99, 9)},
    "interval_width": {"lower": (REAL - 1.0, REAL), "upper": (REAL + 1.0, REAL + 2.0)},
    "crps_normal": {
        "y": (REAL, REAL + 5.0),
        "mean": (REAL + 0.5, REAL),
        "stddev": (REAL + 1.0, REAL + 2.0),
    },
    "crps_samples": {
        "y": (REAL, REAL + 5.0),
        "samples": (np.stack([REAL, REAL + 1]), np.stack([REAL, REAL + 2])),
        "fair": (False, True),
    },
    "probability_integral_transform": {
        "y": (REAL, REAL + 5.0),
        "samples": (np.stack([REAL - 1, REAL + 1]), np.stack([REAL - 2, REAL - 1])),
    },
    "apply_temperature": {
        "logits": (LOGITS, LOGITS + REAL[:, None] * [0, 1, 2]),
        "temperature": (2.0, 1.0),
    },
    **{
        f"fit_{name}": {"y": (Y, Y[[1, 0, 2, 3, 4, 5]]), values: (P, Q), **own}
        for name, values, own in (
            ("vector_scaling", "logits", {}),
            ("dirichlet", "p", {"off_diagonal": (0.01, 1.0), "intercept": (0.01, 1.0)}),
            ("isotonic", "p", {}),
        )
    },
    "apply_vector_scaling": {
        "logits": (LOGITS, LOGITS + REAL[:, None] * [0, 1, 2]),
        "scaling": _maps("vector_scaling"),
    },
    **{
        f"apply_{name}": {"p": (P, Q), "mapping": _maps(name)} for name in ("dirichlet", "isotonic")
    },
    "fit_temperature": {
        "y": (Y, np.array([0, 1, 0, 0, 1, 2])),
        "logits": (MISTAKEN, 2.0 * MISTAKEN),
    },
}


OF_MEAN: dict[str, tuple[Any, Any]] = {
    "metric": (Made(keras.metrics.RootMeanSquaredError), Made(keras.metrics.MeanAbsoluteError)),
    "likelihood": (
        Made(lambda: likelihoods.Normal("predicted")),
        Made(lambda: likelihoods.StudentT(scale="predicted")),
    ),
    "name": (None, "b"),
}

OF_LABELLED: dict[str, tuple[Any, Any]] = {
    "metric": (
        Made(keras.metrics.SparseCategoricalAccuracy),
        Made(keras.metrics.SparseCategoricalCrossentropy),
    ),
    "ignore_class": (1, 0),
    "name": (None, "b"),
}

NAN = (
    *(metrics.AUROC, metrics.AUPR, metrics.FalsePositiveRate),
    *(metrics.ErrorAUROC, metrics.ErrorAUPR),
)
"""Metrics that have no value where all examples are of one kind, or their scores not finite."""


def _over_batches(kind: type, y: Any, outputs: Any, weight: Any = None, **given: Any) -> Any:
    metric = kind(**given)
    metric.update_state(y, outputs, weight)
    actual = metric.result()
    for value in actual.values() if isinstance(actual, dict) else [actual]:
        shaped(value)
    if kind in NAN and np.isnan(actual):
        actual = "NaN, as documented"
    elif _diverged(outputs) and not np.isfinite(actual):
        actual = "not finite, as documented"
    return {"result": actual, "config": metric.get_config()}


def _diverged(outputs: Any) -> bool:
    try:
        return not np.isfinite(np.asarray(outputs, "float64")).all()
    except (TypeError, ValueError):
        return False


INTERVALS = (REAL, np.stack([REAL - 0.1, REAL + 0.2], axis=1))
OUTSIDE = [0, 0, 0, 1, 1, 1]
DATA: dict[str, tuple[Any, Any]] = {
    "OfLabelled": (Y, P),
    "OfMean": (REAL[:, None], np.stack([REAL - 0.1, REAL], axis=1)),
    "AUROC": (OUTSIDE, ENTROPY),
    "AUPR": (OUTSIDE, ENTROPY),
    "FalsePositiveRate": ([0, 0, 1, 0, 0, 1], REAL[[0, 1, 1, 3, 5, 3]]),
    "IntervalCoverage": INTERVALS,
    "IntervalScore": (REAL + 0.3, INTERVALS[1]),
    "NormalCRPS": INTERVALS,
    "SampleCRPS": INTERVALS,
}
"""What metrics are given that are not of classes."""


def _of_metric(kind: type, **given: Any) -> Any:
    if kind.__name__ in DATA:
        return _over_batches(kind, *DATA[kind.__name__], **given)
    outputs = LOGITS if is_true(given["from_logits"]) else P
    reference = kind in (metrics.Agreement, metrics.TotalVariation)
    return _over_batches(kind, Q if reference else Y, outputs, **given)


def cases() -> Iterator[Case]:
    """Each function and class, and the update of one class of each kind."""
    yield from _functions()
    yield from _metrics()
    yield from _updates()


def _functions() -> Iterator[Case]:
    for name, arguments in FUNCTIONS.items():
        target = getattr(metrics, name)
        yield Case(
            f"tfbdl.metrics.{name}",
            target,
            lambda target=target, **given: _record(target(**given)),
            arguments,
        )
    yield Case(
        "tfbdl.metrics.confidence_interval",
        metrics.confidence_interval,
        _resampled,
        {
            "metric": (Made(lambda: np.mean), Made(lambda: np.max)),
            "arrays": (Made(lambda: [REAL]), Made(lambda: [REAL + 1.0])),
            "level": (0.95, 0.5),
            "num_resamples": (20, 30),
            "seed": (1, 2),
        },
    )


def _resampled(metric: Any, **given: Any) -> Any:
    return metrics.confidence_interval(metric, **given)


def _metrics() -> Iterator[Case]:
    common = {"name": ("a", "b"), "dtype": ("float64", "float32")}
    bins = {"num_bins": (15, 2)}
    own: dict[str, dict[str, tuple[Any, Any]]] = {
        "AdaptiveCalibrationError": bins,
        "DebiasedCalibrationError": {"num_bins": (2, 1)},
        "ExpectedCalibrationError": bins,
        "MaximumCalibrationError": bins,
        "BrierDecomposition": {**bins, "num_classes": (3, 4)},
        "ClasswiseCalibrationError": {**bins, "num_classes": (3, 4)},
        "NormalCRPS": {"from_raw": (True, False)},
        "IntervalScore": {"level": (0.95, 0.5)},
        "SampleCRPS": {"fair": (False, True)},
        "FalsePositiveRate": {"true_positive_rate": (0.95, 0.5)},
    }
    for name in metrics.__all__:
        kind = getattr(metrics, name)
        if not (isinstance(kind, type) and issubclass(kind, keras.metrics.Metric)):
            continue
        arguments = {**common, **own.get(name, {})}
        arguments = {"OfMean": OF_MEAN, "OfLabelled": OF_LABELLED}.get(name, arguments)
        if name not in DATA:
            arguments = {**arguments, "from_logits": (False, True)}

        def call(kind: Any = kind, **given: Any) -> Any:
            return _of_metric(kind, **given)

        yield Case(f"tfbdl.metrics.{name}", kind, call, arguments)


def _updates() -> Iterator[Case]:
    weights = {"sample_weight": (np.ones(N), REAL + 0.5)}
    unweighted = {"sample_weight": (None, np.ones(N))}
    ends = np.stack([REAL, REAL + 1], axis=1)
    wider = np.stack([REAL, REAL + 2], axis=1)
    draws = np.stack([REAL, REAL**3 + 1], axis=1)
    of_classes = {"y_true": (Y, OTHER), "y_pred": (P, Q)}
    updates: dict[str, dict[str, tuple[Any, Any]]] = {
        "BrierScore": {**of_classes, **weights},
        "ExpectedCalibrationError": {**of_classes, **weights},
        "ErrorAUROC": {**of_classes, **unweighted},
        "TotalVariation": {"y_true": (Q, P[::-1]), "y_pred": (P, Q), **weights},
        "NormalCRPS": {"y_true": (REAL, REAL + 1), "y_pred": (ends, wider), **weights},
        "SampleCRPS": {"y_true": (REAL, REAL**2 + 2), "y_pred": (draws, wider), **weights},
        "AUROC": {
            "is_out": (OUTSIDE, [0, 1, 0, 1, 1, 1]),
            "uncertainty": (ENTROPY, REAL),
            **unweighted,
        },
    }
    for name, arguments in updates.items():
        kind = getattr(metrics, name)

        def call(kind: Any = kind, names: Any = tuple(arguments), **given: Any) -> Any:
            return _over_batches(kind, *(given[name] for name in names))

        yield Case(f"{name}.update_state", kind.update_state, call, arguments)
