"""The classwise calibration error over batches, against loops over classes and bins."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from metric_cases import classification

from tfbdl import metrics

Y, P = classification(num=301)
WEIGHTS = np.random.default_rng(1).integers(0, 4, len(Y))


def by_loops(y: Any, p: Any, num_bins: int) -> float:
    errors = []
    for c in range(p.shape[1]):
        total = 0.0
        for m in range(num_bins):
            low, high = m / num_bins, (m + 1) / num_bins
            inside = (p[:, c] > low) & (p[:, c] <= high) | ((m == 0) & (p[:, c] == 0))
            if inside.any():
                share, forecast = np.mean(y[inside] == c), np.mean(p[inside, c])
                total += inside.mean() * abs(share - forecast)
        errors.append(total)
    return float(np.mean(errors))


def over_batches(metric: Any, y: Any, p: Any, weights: Any = None) -> float:
    for part in np.array_split(np.arange(len(y)), 4):
        metric.update_state(y[part], p[part], None if weights is None else weights[part])
    return float(metric.result())


@pytest.mark.parametrize("num_bins", [1, 4, 15])
def test_batches_give_the_value_of_all(num_bins: int) -> None:
    expected = by_loops(Y, P, num_bins)
    metric = metrics.ClasswiseCalibrationError(4, num_bins)
    np.testing.assert_allclose(over_batches(metric, Y, P), expected, rtol=1e-6)
    np.testing.assert_allclose(metrics.classwise_calibration_error(Y, P, num_bins), expected)
    logits = metrics.ClasswiseCalibrationError(4, num_bins, from_logits=True)
    np.testing.assert_allclose(over_batches(logits, Y, np.log(P)), expected, rtol=1e-5)


def test_weights_count_examples() -> None:
    repeated = np.repeat(np.arange(len(Y)), WEIGHTS)
    metric = metrics.ClasswiseCalibrationError(4)
    value = over_batches(metric, Y, P, WEIGHTS.astype("float64"))
    np.testing.assert_allclose(value, by_loops(Y[repeated], P[repeated], 15), rtol=1e-6)
    metric.reset_state()
    assert float(metric.result()) == 0.0


def test_two_classes_by_one_output() -> None:
    y, p = classification(num_classes=2)
    one = over_batches(metrics.ClasswiseCalibrationError(2), y, p[:, 1:])
    np.testing.assert_allclose(one, by_loops(y, p, 15), rtol=1e-6)


def test_in_evaluate() -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Softmax()])
    metric = metrics.ClasswiseCalibrationError(4)
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=[metric])
    logits = np.log(P).astype("float32")
    value = model.evaluate(logits, Y, verbose=0, batch_size=64, return_dict=True)
    expected = by_loops(Y, tf.nn.softmax(logits).numpy().astype(float), 15)
    np.testing.assert_allclose(value["classwise_calibration_error"], expected, atol=1e-3)


def test_other_number_of_classes() -> None:
    with pytest.raises(ValueError, match="y_pred has 4 classes; give num_classes=4"):
        metrics.ClasswiseCalibrationError(3).update_state(Y, P)
