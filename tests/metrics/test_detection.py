"""Ranking metrics against all pairs, all thresholds, and all orders of ties."""

import itertools
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

SCORES = st.lists(st.integers(0, 5), min_size=1, max_size=15)
Y, P = classification(200)


def auroc_by_pairs(scores_in: Any, scores_out: Any) -> Any:
    return np.mean([(b > a) + 0.5 * (b == a) for a in scores_in for b in scores_out])


def aupr_by_thresholds(scores_in: Any, scores_out: Any) -> Any:
    area, recall_before = 0.0, 0.0
    for threshold in sorted({*scores_in, *scores_out}, reverse=True):
        actual = sum(s >= threshold for s in scores_out)
        alarms = actual + sum(s >= threshold for s in scores_in)
        recall = actual / len(scores_out)
        area += (recall - recall_before) * actual / alarms
        recall_before = recall
    return area


def risks_by_orders(errors: Any, uncertainty: Any) -> Any:
    """The mean curve over all orders in which the uncertainty does not fall."""
    curves = []
    for order in itertools.permutations(range(len(errors))):
        if all(uncertainty[a] <= uncertainty[b] for a, b in itertools.pairwise(order)):
            wrong = np.cumsum([errors[i] for i in order])
            curves.append(wrong / np.arange(1, len(errors) + 1))
    return np.mean(curves, axis=0)


def with_errors(errors: Any) -> tuple[np.ndarray, np.ndarray]:
    """Labels and predictions that are wrong where asked."""
    return np.asarray(errors, int), np.tile([0.75, 0.25], (len(errors), 1))


class OutOfDistributionTest(tf.test.TestCase, parameterized.TestCase):
    @QUICK
    @given(SCORES, SCORES)
    def test_against_brute_force(self, scores_in: Any, scores_out: Any) -> None:
        got = metrics.auroc(scores_in, scores_out)
        self.assertAllClose(got, auroc_by_pairs(scores_in, scores_out), 1e-12)
        self.assertAllClose(got, 1 - metrics.auroc(scores_out, scores_in), 1e-12, 1e-14)
        self.assertIsInstance(got, float)
        got = metrics.aupr(scores_in, scores_out)
        self.assertAllClose(got, aupr_by_thresholds(scores_in, scores_out), 1e-12)
        self.assertIsInstance(got, float)

    @QUICK
    @given(SCORES, SCORES, st.sampled_from([0.05, 0.5, 0.8, 0.95, 1.0]))
    def test_false_positives_by_thresholds(self, scores_in: Any, scores_out: Any, rate: Any) -> Any:
        a, b = np.array(scores_in), np.array(scores_out)
        thresholds = [t for t in np.unique(a) if np.mean(a <= t) >= rate]
        expected = np.mean(b <= thresholds[0])
        got = metrics.false_positive_rate(scores_in, scores_out, rate)
        self.assertAllClose(got, expected, 1e-12)

    def test_false_positives_against_scikit_learn(self) -> None:
        rng = np.random.default_rng(0)
        a, b = rng.normal(size=1000), rng.normal(1.5, size=700)
        flags = np.repeat([1, 0], [len(a), len(b)])  # found are those in the distribution
        fpr, tpr, _ = sklearn.metrics.roc_curve(
            flags, -np.concatenate([a, b]), drop_intermediate=False
        )
        self.assertAllClose(metrics.false_positive_rate(a, b), fpr[np.argmax(tpr >= 0.95)], 1e-12)

    def test_many_scores(self) -> None:
        rng = np.random.default_rng(0)
        scores_in, scores_out = rng.normal(size=300), rng.normal(0.5, size=200)
        got = metrics.auroc(scores_in, scores_out)
        self.assertAllClose(got, auroc_by_pairs(scores_in, scores_out), 1e-12)
        got = metrics.aupr(scores_in, scores_out)
        self.assertAllClose(got, aupr_by_thresholds(scores_in, scores_out), 1e-12)

    def test_perfect_useless_and_reversed(self) -> None:
        low, high = [0.1, 0.2, 0.3], [0.4, 0.5]
        self.assertEqual(metrics.auroc(low, high), 1.0)
        self.assertEqual(metrics.aupr(low, high), 1.0)
        self.assertEqual(metrics.auroc(high, low), 0.0)
        self.assertEqual(metrics.auroc([1.0] * 3, [1.0] * 2), 0.5)
        self.assertAllClose(metrics.aupr([1.0] * 3, [1.0] * 2), 0.4, 1e-15)


class ErrorAUROCTest(tf.test.TestCase):
    def test_against_pairs(self) -> None:
        uncertainty = -P.max(axis=1)
        wrong = P.argmax(axis=1) != Y
        expected = auroc_by_pairs(uncertainty[~wrong], uncertainty[wrong])
        self.assertAllClose(metrics.error_auroc(Y, P, uncertainty), expected, 1e-12)

    def test_undefined_without_both(self) -> None:
        for errors in ([0, 0], [1, 1], [0]):
            value = metrics.error_auroc(*with_errors(errors), np.arange(len(errors)))
            self.assertTrue(math.isnan(value))

    def test_by_hand(self) -> None:
        y, p = with_errors([0, 1, 0, 1])
        self.assertEqual(metrics.error_auroc(y, p, [0.1, 0.9, 0.2, 0.8]), 1.0)
        self.assertEqual(metrics.error_auroc(y, p, [0.1, 0.2, 0.3, 0.4]), 0.75)
        self.assertEqual(metrics.error_auroc(y, p, [1.0, 1.0, 1.0, 1.0]), 0.5)


class ErrorAUPRTest(tf.test.TestCase):
    def test_against_thresholds(self) -> None:
        uncertainty = -P.max(axis=1)
        wrong = P.argmax(axis=1) != Y
        expected = aupr_by_thresholds(uncertainty[~wrong], uncertainty[wrong])
        got = metrics.error_aupr(Y, P, uncertainty)
        self.assertAllClose(got, expected, 1e-12)
        self.assertIsInstance(got, float)

    def test_at_its_ends(self) -> None:
        for errors, expected in (([0, 0], math.nan), ([1, 1], 1.0), ([1], 1.0)):
            value = metrics.error_aupr(*with_errors(errors), np.arange(len(errors)))
            self.assertAllEqual(value, expected)

    def test_by_hand(self) -> None:
        y, p = with_errors([0, 1, 0, 1])
        self.assertEqual(metrics.error_aupr(y, p, [0.1, 0.9, 0.2, 0.8]), 1.0)
        self.assertEqual(metrics.error_aupr(y, p, [0.3, 0.4, 0.2, 0.1]), 0.75)
        self.assertEqual(metrics.error_aupr(y, p, [1.0, 1.0, 1.0, 1.0]), 0.5)


class RiskCoverageTest(tf.test.TestCase):
    @QUICK
    @given(st.lists(st.tuples(st.booleans(), st.integers(0, 2)), min_size=1, max_size=6))
    def test_against_all_orders(self, pairs: Any) -> None:
        errors, uncertainty = zip(*pairs, strict=True)
        y, p = with_errors(errors)
        curve = metrics.risk_coverage(y, p, uncertainty)
        expected = risks_by_orders(errors, uncertainty)
        self.assertAllClose(curve.risk, expected, 1e-12)
        self.assertAllClose(curve.coverage, np.arange(1, len(y) + 1) / len(y), 1e-15)
        area = metrics.area_under_risk_coverage(y, p, uncertainty)
        self.assertAllClose(area, expected.mean(), 1e-12)
        self.assertIsInstance(area, float)

    def test_by_hand(self) -> None:
        """The most certain is right, then one is wrong, then one is right."""
        y, p = with_errors([1, 0, 0])
        curve = metrics.risk_coverage(y, p, [0.5, 0.1, 0.9])
        self.assertAllClose(curve.risk, [0, 1 / 2, 1 / 3], 1e-12)
        self.assertAllClose(metrics.area_under_risk_coverage(y, p, [0.5, 0.1, 0.9]), 5 / 18, 1e-12)

    def test_ends_at_the_error_rate(self) -> None:
        curve = metrics.risk_coverage(Y, P, -P.max(axis=1))
        self.assertAllClose(curve.risk[-1], np.mean(P.argmax(axis=1) != Y), 1e-12)
        self.assertEqual(curve.coverage[-1], 1.0)

    def test_all_right_all_wrong_and_all_tied(self) -> None:
        for errors, expected in (([0, 0, 0], 0.0), ([1, 1, 1], 1.0)):
            y, p = with_errors(errors)
            self.assertEqual(metrics.area_under_risk_coverage(y, p, [3.0, 1.0, 2.0]), expected)
        y, p = with_errors([1, 0, 0, 0])
        self.assertAllClose(metrics.risk_coverage(y, p, np.ones(4)).risk, np.full(4, 0.25), 1e-12)

    @QUICK
    @given(few_classes(), st.randoms(use_true_random=False))
    def test_order_of_examples_is_of_no_account(self, case: Any, random: Any) -> None:
        y, p = case
        order = random.sample(range(len(y)), len(y))
        area = metrics.area_under_risk_coverage(y, p, -p.max(axis=1))
        other = metrics.area_under_risk_coverage(y[order], p[order], -p[order].max(axis=1))
        self.assertAllClose(other, area, 1e-12, 1e-14)


class RiskAreasTest(tf.test.TestCase):
    CASES = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=7)

    @QUICK
    @given(CASES)
    def test_against_all_orders(self, rows: Any) -> None:
        """All orders of ties; and the best uncertainty among all orders of the examples."""
        errors, uncertainty = map(list, zip(*rows, strict=True))
        y, p = with_errors(errors)
        curve = risks_by_orders(errors, uncertainty)
        share = np.arange(1, len(errors) + 1) / len(errors)
        got = metrics.area_under_generalized_risk_coverage(y, p, uncertainty)
        self.assertAllClose(got, np.mean(curve * share), 1e-12)
        best = min(
            np.mean(np.cumsum(order) / np.arange(1, len(errors) + 1))
            for order in itertools.permutations(errors)
        )
        got = metrics.excess_area_under_risk_coverage(y, p, uncertainty)
        self.assertAllClose(got, curve.mean() - best, 1e-12, 1e-14)

    def test_generalized_area_of_chance(self) -> None:
        """Half the error rate; an ideal uncertainty of e errors in N has e (e + 1) / 2 N^2."""
        errors = np.repeat([0, 1], [6, 4])
        y, p = with_errors(errors)
        area = metrics.area_under_generalized_risk_coverage
        self.assertAllClose(area(y, p, np.zeros(10)), 0.4 * (1 + 1 / 10) / 2)
        self.assertAllClose(area(y, p, errors), 4 * 5 / 2 / 10**2)


if __name__ == "__main__":
    tf.test.main()
