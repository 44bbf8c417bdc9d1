"""Temperature scaling against a minimisation of the NLL itself."""

import math
from typing import Any

import numpy as np
import scipy.optimize
import scipy.special
import tensorflow as tf
from absl.testing import parameterized
from hypothesis import given
from hypothesis import strategies as st
from metric_cases import QUICK, classification

from tfbdl import metrics

Y, P = classification()
LOGITS = np.log(P)


def nll(log_temperature: Any, y: Any, logits: Any) -> Any:
    log_p = scipy.special.log_softmax(logits / math.exp(log_temperature), axis=1)
    return -np.mean(log_p[np.arange(len(y)), y])


class FitTemperatureTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(0, 1, 2)
    def test_against_minimisation(self, seed: int) -> None:
        y, p = classification(seed=seed, num_classes=2 + seed)
        logits = np.log(p)
        actual = scipy.optimize.minimize_scalar(nll, bracket=(-1, 1), args=(y, logits), tol=1e-12)
        temperature = metrics.fit_temperature(y, logits)
        self.assertAllClose(temperature, math.exp(actual.x), 1e-5)
        self.assertLessEqual(nll(math.log(temperature), y, logits), actual.fun + 1e-14)
        self.assertIsInstance(temperature, float)

    def test_finds_the_true_one(self) -> None:
        """The labels come from logits half as large."""
        y, p = classification(20_000)
        self.assertAllClose(metrics.fit_temperature(y, np.log(p)), 2.0, 0.1)

    def test_by_hand(self) -> None:
        """T = d / log(s / (1 - s)) for logit differences d that are right in a share s."""
        logits, y = np.tile([0.0, 3.0], (5, 1)), [1, 1, 1, 1, 0]
        self.assertAllClose(metrics.fit_temperature(y, logits), 3 / math.log(4), 1e-10)

    @parameterized.parameters(1e-200, 1e-6, 1.0, 1e8, 1e200)
    def test_any_unit(self, unit: Any) -> None:
        got = metrics.fit_temperature(Y, unit * LOGITS)
        self.assertAllClose(got / unit, metrics.fit_temperature(Y, LOGITS), 1e-10)

    def test_float32_and_shifts(self) -> None:
        got = metrics.fit_temperature(Y, LOGITS.astype(np.float32) + 7.0)
        self.assertAllClose(got, metrics.fit_temperature(Y, LOGITS), 1e-5)

    @QUICK
    @given(st.integers(0, 10_000))
    def test_slope_is_zero(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        logits, y = rng.normal(size=(20, 3)), rng.integers(3, size=20)
        y[:15] = logits[:15].argmax(axis=1)
        logits[15:] = 0.1 * logits[15:]
        y[15:] = logits[15:].argmin(axis=1)
        fitted = math.log(metrics.fit_temperature(y, logits))
        for step in (-1e-3, 1e-3):
            self.assertGreater(nll(fitted + step, y, logits), nll(fitted, y, logits))

    def test_hardly_better_than_chance(self) -> None:
        """T = d / log(s / (1 - s)) again, for s = 0.5 + 1e-5."""
        y = np.repeat([1, 0], [50_001, 49_999])
        logits = np.tile([0.0, 1.0], (100_000, 1))
        expected = 1 / math.log(50_001 / 49_999)
        self.assertAllClose(metrics.fit_temperature(y, logits), expected, 1e-7)

    @parameterized.parameters(([0, 1],), ([1, 1],))
    def test_no_finite_temperature(self, y: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^logits of the labels are .* no larger .*check"):
            metrics.fit_temperature(y, [[0.0, 0.0], [1.0, -1.0]])

    def test_constant_logits(self) -> None:
        with self.assertRaisesRegex(ValueError, "^logits of the labels are .* no larger .*check"):
            metrics.fit_temperature([0, 1], np.full((2, 3), 5.0))

    def test_all_right_has_no_positive_temperature(self) -> None:
        with self.assertRaisesRegex(
            ValueError, "^logits are largest for the label .*more held-out"
        ):
            metrics.fit_temperature([0, 1], [[2.0, 1.0], [1.0, 2.0]])

    @parameterized.parameters(
        ([0, 3], "^y has the label 3 at index 1; logits has 3 classes"),
        ([0], "^y has 1 examples and logits has 2"),
        ([0.0, 1.0], "^y has dtype float64; give integer labels"),
    )
    def test_wrong_labels(self, y: Any, message: str) -> None:
        with self.assertRaisesRegex(ValueError, message):
            metrics.fit_temperature(y, [[1.0, 0.0, 0.0], [0.0, 1.0, 2.0]])

    @parameterized.parameters(
        ([], "^logits has shape .0,., which is empty"),
        ([1.0, 2.0], r"^logits has shape \(2,\); give shape \(N, C\)"),
        ([[1.0], [2.0]], r"^logits has shape \(2, 1\); give shape \(N, C\)"),
        ([[math.nan, 2.0]], r"^logits has nan at index \(0, 0\)"),
    )
    def test_wrong_logits(self, logits: Any, message: str) -> None:
        with self.assertRaisesRegex(ValueError, message):
            metrics.fit_temperature([0] * len(logits), logits)
        with self.assertRaisesRegex(ValueError, message):
            metrics.apply_temperature(logits, 1.0)


class ScaleTest(tf.test.TestCase, parameterized.TestCase):
    def test_against_scipy(self) -> None:
        self.assertAllClose(metrics.apply_temperature(LOGITS, 1.0), P, 1e-12)
        expected = scipy.special.softmax(LOGITS / 2.5, axis=1)
        self.assertAllClose(metrics.apply_temperature(LOGITS, 2.5), expected, 1e-12)
        self.assertEqual(
            metrics.apply_temperature(LOGITS.astype(np.float32), 2.5).dtype, np.float64
        )

    def test_large_logits(self) -> None:
        self.assertAllClose(metrics.apply_temperature([[1e4, 0.0]], 1.0), [[1.0, 0.0]])

    def test_calibrates(self) -> None:
        scaled = metrics.apply_temperature(LOGITS, metrics.fit_temperature(Y, LOGITS))
        for score in (metrics.negative_log_likelihood, metrics.expected_calibration_error):
            self.assertLess(score(Y, scaled), score(Y, P))

    @parameterized.parameters(0, -1.0, math.inf, math.nan, None, "hot", True)
    def test_temperature_is_checked(self, temperature: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^temperature=.* must be a positive number"):
            metrics.apply_temperature(LOGITS, temperature)


if __name__ == "__main__":
    tf.test.main()
