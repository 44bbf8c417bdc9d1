"""The log and Brier scores against scikit-learn, loops, and values by hand."""

import math
from typing import Any

import numpy as np
import sklearn.metrics
import tensorflow as tf
from absl.testing import parameterized
from hypothesis import given
from hypothesis import strategies as st
from metric_cases import QUICK, classification, few_classes

from tfbdl import metrics

Y, P = classification()


def decomposition_by_loops(y: Any, p: Any, num_bins: int) -> Any:
    """The five parts, class by class and bin by bin."""
    parts = np.zeros(5)
    for c in range(p.shape[1]):
        outcome, base = (y == c) * 1.0, np.mean(y == c)
        parts[2] += base * (1 - base)
        for m in range(num_bins):
            low, high = m / num_bins, (m + 1) / num_bins
            inside = [i for i, v in enumerate(p[:, c]) if low < v <= high or (v == 0 == m)]
            if inside:
                f, o = p[inside, c], outcome[inside]
                share = len(inside) / len(y)
                parts[0] += share * (f.mean() - o.mean()) ** 2
                parts[1] += share * (o.mean() - base) ** 2
                parts[3] += share * np.mean((f - f.mean()) ** 2)
                parts[4] += share * 2 * np.mean((f - f.mean()) * (o - o.mean()))
    return parts


def parts_of(actual: Any) -> Any:
    return [
        actual.reliability,
        actual.resolution,
        actual.uncertainty,
        actual.within_bin_variance,
        actual.within_bin_covariance,
    ]


class NegativeLogLikelihoodTest(tf.test.TestCase, parameterized.TestCase):
    def test_by_hand(self) -> None:
        got = metrics.negative_log_likelihood([0, 1], [[0.5, 0.5], [0.25, 0.75]])
        self.assertAllClose(got, (math.log(2) + math.log(4 / 3)) / 2, 1e-15)
        self.assertIsInstance(got, float)

    def test_against_scikit_learn(self) -> None:
        got = metrics.negative_log_likelihood(Y, P)
        self.assertAllClose(got, sklearn.metrics.log_loss(Y, P), 1e-13)

    def test_what_was_called_impossible_has_infinite_score(self) -> None:
        p = np.array([[1.0, 0.0], [0.5, 0.5]], np.float32)
        self.assertEqual(metrics.negative_log_likelihood([1, 0], p), math.inf)
        self.assertAllClose(metrics.negative_log_likelihood([0, 0], p), math.log(2) / 2, 1e-15)

    def test_smallest_probability_is_finite(self) -> None:
        got = metrics.negative_log_likelihood([1], [[1.0, 5e-324]])
        self.assertAllClose(got, 1074 * math.log(2), 1e-12)

    def test_certain_and_right(self) -> None:
        self.assertEqual(metrics.negative_log_likelihood([2], [[0, 0, 1]]), 0.0)


class BrierTest(tf.test.TestCase, parameterized.TestCase):
    def test_by_hand(self) -> None:
        got = metrics.brier_score([0, 1], [[0.5, 0.5], [0.25, 0.75]])
        self.assertAllClose(got, (0.5 + 0.125) / 2, 1e-15)
        self.assertIsInstance(got, float)

    def test_is_twice_that_of_one_class_of_two(self) -> None:
        y, p = classification(num_classes=2)
        expected = 2 * sklearn.metrics.brier_score_loss(y, p[:, 1])
        for shape in (p, p[:, 1], p[:, 1:]):
            self.assertAllClose(metrics.brier_score(y, shape), expected, 1e-13)

    def test_against_a_loop(self) -> None:
        expected = np.mean(
            [sum((P[i, c] - (Y[i] == c)) ** 2 for c in range(4)) for i in range(len(Y))]
        )
        self.assertAllClose(metrics.brier_score(Y, P), expected, 1e-13)

    @parameterized.parameters((0, 0.0), (1, 2.0))
    def test_best_and_worst(self, label: Any, expected: Any) -> None:
        self.assertEqual(metrics.brier_score([label], [[1.0, 0.0]]), expected)


class DecompositionTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(1, 2, 10, 15, 97)
    def test_against_loops(self, num_bins: int) -> None:
        score = metrics.brier_decomposition(Y, P, num_bins)
        self.assertAllClose(parts_of(score), decomposition_by_loops(Y, P, num_bins), 1e-12, 1e-14)
        self.assertAllClose(score.score, metrics.brier_score(Y, P), 1e-13)

    def test_few_values_leave_nothing_within_bins(self) -> None:
        """Murphy's three parts, with forecasts that each bin holds one value of."""
        p = np.array([0.05, 0.3, 0.3, 0.3, 0.95, 0.95, 0.55])
        y = np.array([0, 0, 1, 0, 1, 1, 1])
        score = metrics.brier_decomposition(y, p, 10)
        self.assertAllClose(score.within_bin_variance, 0.0)
        self.assertAllClose(score.within_bin_covariance, 0.0)
        three = score.reliability - score.resolution + score.uncertainty
        self.assertAllClose(three, metrics.brier_score(y, p), 1e-13)

    def test_by_hand(self) -> None:
        """One bin, forecasts 0.2 and 0.6 of class 1, of which the second comes true."""
        score = metrics.brier_decomposition([0, 1], [0.2, 0.6], 1)
        by_hand = [2 * 0.1**2, 0.0, 2 * 0.25, 2 * 0.2**2, 2 * 2 * 0.2 * 0.5]
        self.assertAllClose(parts_of(score), by_hand, 1e-13, 1e-15)

    def test_forecast_of_the_base_rate_is_pure_uncertainty(self) -> None:
        y = np.array([0, 0, 0, 1])
        score = metrics.brier_decomposition(y, np.full(4, 0.25))
        self.assertAllClose(parts_of(score), [0, 0, 2 * 0.25 * 0.75, 0, 0], atol=1e-15)

    @QUICK
    @given(few_classes(), st.integers(1, 20))
    def test_parts_add_up(self, case: Any, num_bins: int) -> None:
        y, p = case
        score = metrics.brier_decomposition(y, p, num_bins)
        self.assertAllClose(score.score, metrics.brier_score(y, p), 1e-12, 1e-14)
        self.assertAllClose(parts_of(score), decomposition_by_loops(y, p, num_bins), 1e-12, 1e-14)
        self.assertAllInRange(parts_of(score)[:4], -1e-14, 2.0)


class OrderTest(tf.test.TestCase, parameterized.TestCase):
    @QUICK
    @given(few_classes(), st.randoms(use_true_random=False))
    def test_order_of_examples_is_of_no_account(self, case: Any, random: Any) -> None:
        y, p = case
        order = random.sample(range(len(y)), len(y))
        for score in (metrics.negative_log_likelihood, metrics.brier_score):
            self.assertAllClose(score(y[order], p[order]), score(y, p), 1e-12)


if __name__ == "__main__":
    tf.test.main()
