"""Functions of all examples and Keras metrics of batches: the same answers to the same inputs."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from metric_cases import QUICK, classification, few_classes

from tfbdl import metrics

Y, P = classification(60)
PAIRS: dict[str, tuple[Callable[[int], Any], Any]] = {
    "nll": (lambda C: metrics.NegativeLogLikelihood(), metrics.negative_log_likelihood),
    "brier": (lambda C: metrics.BrierScore(), metrics.brier_score),
    "ece": (lambda C: metrics.ExpectedCalibrationError(), metrics.expected_calibration_error),
    "mce": (lambda C: metrics.MaximumCalibrationError(), metrics.maximum_calibration_error),
    "classwise": (metrics.ClasswiseCalibrationError, metrics.classwise_calibration_error),
    "decomposition": (metrics.BrierDecomposition, metrics.brier_decomposition),
}


def of_metric(name: str, y: Any, p: Any) -> Any:
    metric = PAIRS[name][0](2 if p.ndim == 1 or p.shape[-1] == 1 else p.shape[-1])
    for rows in np.array_split(np.arange(len(y)), min(2, len(y))):
        metric.update_state(y[rows], p[rows])
    result = metric.result()
    return list(result.values()) if isinstance(result, dict) else result


def of_function(name: str, y: Any, p: Any) -> Any:
    result = PAIRS[name][1](y, p)
    return dataclasses.astuple(result) if name == "decomposition" else result


@pytest.mark.parametrize("name", PAIRS)
@settings(QUICK, max_examples=15)
@given(case=few_classes(), last=st.booleans())
def test_ties_edges_and_certainty(name: str, case: Any, last: bool) -> None:
    y, p = case
    if last:
        y, p = np.minimum(y, 1), p[:, :1]
    np.testing.assert_allclose(of_metric(name, y, p), of_function(name, y, p), 1e-12, 1e-12)


@pytest.mark.parametrize("name", PAIRS)
def test_rows_that_sum_to_one_when_they_are_rounded_to_probabilities(name: str) -> None:
    """Values below 0 by rounding count as 0, in the sum of their row too."""
    p = np.full((1, 3000), -9e-7)
    p[0, 0] = 1.0
    y = np.array([0])
    np.testing.assert_allclose(of_metric(name, y, p), of_function(name, y, p), atol=1e-12)
    p[0, :2] = (1.0 + 2998 * 9e-7) / 2
    for answer in (of_metric, of_function):
        with pytest.raises(ValueError, match=r"a row (with the sum|that does not sum)"):
            answer(name, y, p)


@pytest.mark.parametrize("name", PAIRS)
def test_batches_without_examples(name: str) -> None:
    metric = PAIRS[name][0](4)
    for stop in (0, len(Y), 0):
        metric.update_state(Y[:stop], P[:stop])
    result = metric.result()
    values = list(result.values()) if isinstance(result, dict) else result
    np.testing.assert_allclose(values, of_function(name, Y, P), 1e-12)


def test_batches_without_examples_where_predictions_are_ranked() -> None:
    metric = metrics.ErrorAUROC()
    for stop in (0, len(Y), 0):
        metric.update_state(Y[:stop], P[:stop])
    expected = metrics.error_auroc(Y, P, -P.max(axis=1))
    np.testing.assert_allclose(metric.result(), expected, 1e-12)


DOUBLE = np.array([[1.0, 5e-324], [1.0, 2e-310], [1.0, 1e-300]])
SINGLE = np.array([[1.0, 1e-45], [1.0, 1e-40], [1.0, 1e-30]], np.float32)


@pytest.mark.parametrize(
    ("p", "compiled"),
    [(DOUBLE, None), (DOUBLE, False), (SINGLE, None), (SINGLE, False), (SINGLE, True)],
)
def test_log_of_probabilities_that_tensorflow_takes_for_0(p: Any, compiled: bool | None) -> None:
    metric, y = metrics.NegativeLogLikelihood(), np.ones(3, int)
    update = metric.update_state
    if compiled is not None:
        update = tf.function(update, jit_compile=compiled)
    update(tf.constant(y), tf.constant(p))
    expected = -np.log(p[:, 1].astype(np.float64)).mean()
    np.testing.assert_allclose(metric.result(), expected, 1e-14)
    np.testing.assert_allclose(metrics.negative_log_likelihood(y, p), expected, 1e-14)
    metric.update_state([1], [[1.0, 0.0]])
    assert metric.result() == math.inf


@pytest.mark.parametrize("fair", [False, True])
def test_samples_whose_number_is_not_known_yet(fair: bool) -> None:
    y, samples = np.arange(4.0), np.random.default_rng(0).normal(size=(7, 4))
    metric = metrics.SampleCRPS(fair)
    signature = [tf.TensorSpec([None], tf.float64), tf.TensorSpec([None, None], tf.float64)]
    tf.function(metric.update_state, input_signature=signature)(y, samples.T)
    expected = metrics.crps_samples(y, samples, fair=fair)
    np.testing.assert_allclose(metric.result(), expected, 1e-12)


@pytest.mark.parametrize("name", PAIRS)
def test_nan_of_one_class_is_seen(name: str) -> None:
    """A label whose own probability is finite, in a row that is no distribution."""
    p = np.where(np.arange(P.size).reshape(P.shape) == 4 * 7 + (Y[7] + 1) % 4, np.nan, P)
    assert np.isfinite(p[7, Y[7]])
    assert np.isnan(of_metric(name, Y, p)).all()


@pytest.mark.parametrize("name", PAIRS)
def test_nan_is_seen_under_xla(name: str) -> None:
    """In the result, too, which Keras compiles with the step."""
    p = np.where(np.arange(len(P))[:, None] == 7, np.nan, P)
    metric = PAIRS[name][0](4)

    def step() -> Any:
        metric.update_state(tf.constant(Y), tf.constant(p))
        return tf.nest.flatten(metric.result())

    assert all(math.isnan(value) for value in tf.function(step, jit_compile=True)())


def test_functions_of_arrays_while_a_graph_is_traced() -> None:
    values: list[float] = []
    functions: list[Any] = [function for _, function in PAIRS.values()]

    @tf.function(autograph=False)
    def traced() -> None:
        values.extend(function(Y, P) for function in functions[:-1])
        values.append(functions[-1](Y, P).score)
        values.append(metrics.agreement(P, P[::-1]))
        values.append(metrics.interval_coverage(P, P - 1, P + 1))
        values.append(metrics.crps_normal(P, P, P + 1))

    traced()
    traced_values = values[:]
    values.clear()
    traced.python_function()
    assert traced_values == values
