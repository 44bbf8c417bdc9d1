"""Calibration errors against loops over bins, and values by hand."""

from typing import Any

import numpy as np
import tensorflow as tf
from absl.testing import parameterized
from hypothesis import given
from hypothesis import strategies as st
from metric_cases import QUICK, classification, few_classes

from tfbdl import metrics

Y, P = classification()
ERRORS = (
    metrics.expected_calibration_error,
    metrics.maximum_calibration_error,
    metrics.adaptive_calibration_error,
)


def bins_by_loops(y: Any, p: Any, num_bins: int) -> Any:
    """(count, confidence, accuracy) of each bin that is not empty."""
    confidence = [max(row) for row in p]
    right = [list(row).index(max(row)) == label for row, label in zip(p, y, strict=True)]
    actual = []
    for m in range(num_bins):
        low, high = m / num_bins, (m + 1) / num_bins
        inside = [i for i, c in enumerate(confidence) if low < c <= high]
        if inside:
            mean = np.mean([confidence[i] for i in inside])
            actual.append((len(inside), mean, np.mean([right[i] for i in inside])))
    return actual


def adaptive_by_loops(y: Any, p: Any, num_bins: int) -> Any:
    """Runs of the sorted examples; each is right by the share of those as confident as it."""
    confidence = [max(row) for row in p]
    right = [list(row).index(max(row)) == label for row, label in zip(p, y, strict=True)]
    order = sorted(range(len(y)), key=lambda i: confidence[i])
    share = [
        np.mean([right[j] for j in range(len(y)) if confidence[j] == confidence[i]])
        for i in range(len(y))
    ]
    size, longer = divmod(len(y), num_bins)
    total, start = 0.0, 0
    for m in range(num_bins):
        stop = start + size + (m < longer)
        total += abs(sum(share[i] - confidence[i] for i in order[start:stop]))
        start = stop
    return total / len(y)


class BinnedTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(1, 2, 3, 10, 15, 100)
    def test_against_loops(self, num_bins: int) -> None:
        bins = bins_by_loops(Y, P, num_bins)
        expected = sum(n * abs(a - c) for n, c, a in bins) / len(Y)
        got = metrics.expected_calibration_error(Y, P, num_bins)
        self.assertAllClose(got, expected, 1e-12)
        self.assertIsInstance(got, float)
        largest = max(abs(a - c) for _, c, a in bins)
        self.assertAllClose(metrics.maximum_calibration_error(Y, P, num_bins), largest, 1e-12)

    def test_reliability(self) -> None:
        score = metrics.reliability(Y, P, 15)
        self.assertEqual(score.count.sum(), len(Y))
        full = score.count > 0
        bins = np.array(bins_by_loops(Y, P, 15))
        self.assertAllEqual(score.count[full], bins[:, 0])
        self.assertAllClose(score.confidence[full], bins[:, 1], 1e-12)
        self.assertAllClose(score.accuracy[full], bins[:, 2], 1e-12)
        self.assertTrue(np.isnan(score.confidence[~full]).all())
        self.assertTrue(np.isnan(score.accuracy[~full]).all())
        self.assertLen(score.count, 15)

    @parameterized.parameters(7, 10, 15, 49, 100)
    def test_edges_belong_to_the_bin_below(self, num_bins: int) -> None:
        for k in range(num_bins // 2 + 1, num_bins + 1):
            count = metrics.reliability([1], [k / num_bins], num_bins).count
            self.assertEqual(np.flatnonzero(count), [k - 1])

    def test_by_hand(self) -> None:
        """Confidences 0.6 (right) and 0.7 (wrong) in one of five bins, 1.0 (right) in the last."""
        y, p = [1, 0, 0], [0.61, 0.7, 0.0]
        self.assertAllClose(
            metrics.expected_calibration_error(y, p, 5), (abs(1 - 1.31) + 0) / 3, 1e-12
        )
        self.assertAllClose(metrics.maximum_calibration_error(y, p, 5), 0.31 / 2, 1e-12)

    def test_default_is_15_bins(self) -> None:
        self.assertLen(metrics.reliability(Y, P).count, 15)
        for error in ERRORS:
            self.assertEqual(error(Y, P), error(Y, P, 15))


class AdaptiveTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(1, 2, 3, 15, 499, 500, 501)
    def test_against_loops(self, num_bins: int) -> None:
        got = metrics.adaptive_calibration_error(Y, P, num_bins)
        self.assertAllClose(got, adaptive_by_loops(Y, P, num_bins), 1e-12)

    def test_one_bin_is_that_of_the_expected_error(self) -> None:
        got = metrics.adaptive_calibration_error(Y, P, 1)
        self.assertAllClose(got, metrics.expected_calibration_error(Y, P, 1), 1e-12)

    @parameterized.parameters(1, 2, 3, 4, 7)
    def test_all_tied_are_as_one_bin(self, num_bins: int) -> None:
        got = metrics.adaptive_calibration_error([1, 1, 0, 0], [0.9] * 4, num_bins)
        self.assertAllClose(got, 0.4, 1e-12)

    def test_tie_across_a_cut(self) -> None:
        """0.6 right; 0.8 right, wrong; 1.0 right: the two of 0.8 are half right each."""
        got = metrics.adaptive_calibration_error([1, 1, 0, 1], [0.6, 0.8, 0.8, 1.0], 2)
        self.assertAllClose(got, (abs(0.4 - 0.3) + abs(-0.3)) / 4, 1e-12)


class AllErrorsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters((1, 1.0, 0.0), (0, 1.0, 1.0), (1, 0.75, 0.25), (0, 0.75, 0.75))
    def test_one_example(self, label: Any, p: Any, expected: Any) -> None:
        for error in ERRORS:
            self.assertAllClose(error([label], [p]), expected, 1e-15)

    def test_all_right_and_all_wrong(self) -> None:
        sure = np.eye(3)[[0, 1, 2, 0]]
        for error in ERRORS:
            self.assertEqual(error([0, 1, 2, 0], sure), 0.0)
            self.assertEqual(error([1, 2, 0, 1], sure), 1.0)

    @QUICK
    @given(few_classes(), st.integers(1, 20), st.randoms(use_true_random=False))
    def test_bounds_loops_and_order(self, case: Any, num_bins: int, random: Any) -> None:
        y, p = case
        order = random.sample(range(len(y)), len(y))
        for error in ERRORS:
            value = error(y, p, num_bins)
            self.assertBetween(value, 0.0, 1.0)
            self.assertAllClose(error(y[order], p[order], num_bins), value, 1e-12, 1e-14)
        bins = bins_by_loops(y, p, num_bins)
        expected, largest, adaptive = (error(y, p, num_bins) for error in ERRORS)
        by_loops = sum(n * abs(a - c) for n, c, a in bins) / len(y)
        self.assertAllClose(expected, by_loops, 1e-12, 1e-14)
        self.assertAllClose(largest, max(abs(a - c) for _, c, a in bins), 1e-12, 1e-14)
        self.assertAllClose(adaptive, adaptive_by_loops(y, p, num_bins), 1e-12, 1e-14)
        self.assertLessEqual(expected, largest + 1e-14)


class ClasswiseTest(tf.test.TestCase, parameterized.TestCase):
    @QUICK
    @given(few_classes(), st.integers(1, 6))
    def test_against_loops(self, data: Any, num_bins: int) -> None:
        y, p = data
        errors = []
        for c in range(p.shape[1]):
            total = 0.0
            for m in range(num_bins):
                low, high = m / num_bins, (m + 1) / num_bins
                rows = [i for i, q in enumerate(p[:, c]) if low < q <= high or (m == q == 0)]
                if rows:
                    share = np.mean([y[i] == c for i in rows])
                    total += len(rows) / len(y) * abs(share - np.mean(p[rows, c]))
            errors.append(total)
        got = metrics.classwise_calibration_error(y, p, num_bins)
        self.assertAllClose(got, np.mean(errors), 1e-12, 1e-14)


class DebiasedTest(tf.test.TestCase, parameterized.TestCase):
    def test_against_loops(self) -> None:
        order = np.argsort(P.max(axis=1))
        total = 0.0
        for rows in np.array_split(order, 10):
            a = np.mean(P[rows].argmax(axis=1) == Y[rows])
            c = np.mean(P[rows].max(axis=1))
            total += len(rows) / len(Y) * ((a - c) ** 2 - a * (1 - a) / (len(rows) - 1))
        got = metrics.debiased_calibration_error(Y, P, 10)
        self.assertAllClose(got, np.sqrt(total), 1e-12)

    def test_noise_is_taken_out(self) -> None:
        """A calibrated classifier of one confidence: the square, of mean zero, over many sets."""
        rng, q, sets, N = np.random.default_rng(0), 0.7, 400, 40
        squares, plain = [], []
        for _ in range(sets):
            y = (rng.random(N) > q).astype(int)
            p = np.tile([q, 1 - q], (N, 1))
            a = np.mean(y == 0)
            squares.append((a - q) ** 2 - a * (1 - a) / (N - 1))
            expected = np.sqrt(max(squares[-1], 0.0))
            self.assertAllClose(metrics.debiased_calibration_error(y, p, 1), expected, 1e-9, 1e-9)
            plain.append(metrics.expected_calibration_error(y, p, 1))
        self.assertLess(abs(np.mean(squares)), 4 * np.std(squares) / np.sqrt(sets))
        self.assertGreater(np.mean(plain), 0.05)

    def test_one_example_says_nothing(self) -> None:
        with self.assertRaisesRegex(ValueError, "num_bins=15 leaves no bin with two of 1 examples"):
            metrics.debiased_calibration_error([0], [[0.7, 0.3]])


if __name__ == "__main__":
    tf.test.main()
