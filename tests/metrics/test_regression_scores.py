"""Intervals by hand, and the CRPS against numerical integration and all pairs of samples."""

import math
from typing import Any

import numpy as np
import scipy.integrate
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized
from hypothesis import given
from hypothesis import strategies as st
from metric_cases import QUICK

from tfbdl import metrics

RNG = np.random.default_rng(0)
FINITE = st.floats(-100, 100, allow_subnormal=False)


def crps_by_integration(cdf: Any, y: Any, low: Any, high: Any) -> Any:
    """The integral of (P(Y <= t) - 1[y <= t])^2 over t."""
    below, _ = scipy.integrate.quad(lambda t: cdf(t) ** 2, low, y, limit=200)
    above, _ = scipy.integrate.quad(lambda t: (1 - cdf(t)) ** 2, y, high, limit=200)
    return below + above


class IntervalTest(tf.test.TestCase):
    def test_coverage_by_hand(self) -> None:
        y, lower, upper = [0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 2.5, 3.0], [1.0, 1.0, 3.0, 3.0]
        self.assertEqual(metrics.interval_coverage(y, lower, upper), 0.75)
        self.assertIsInstance(metrics.interval_coverage(y, lower, upper), float)
        self.assertEqual(metrics.interval_coverage([5.0], [0.0], [1.0]), 0.0)

    def test_width_by_hand(self) -> None:
        self.assertEqual(metrics.interval_width([0.0, 1.0], [1.0, 4.0]), 2.0)
        self.assertIsInstance(metrics.interval_width([0.0], [0.0]), float)

    def test_any_shape(self) -> None:
        y = RNG.normal(size=(5, 3, 2))
        self.assertEqual(metrics.interval_coverage(y, y - 1, y + 1), 1.0)
        self.assertAllClose(metrics.interval_width(y - 1, y + 1), 2.0, 1e-12)

    def test_coverage_of_normal_quantiles(self) -> None:
        y = RNG.normal(size=20_000)
        end = np.full_like(y, scipy.stats.norm.ppf(0.95))
        error = math.sqrt(0.9 * 0.1 / len(y))
        self.assertAllClose(metrics.interval_coverage(y, -end, end), 0.9, atol=4 * error)


class IntervalScoreTest(tf.test.TestCase):
    def test_by_hand(self) -> None:
        y, lower, upper = [0.5, -1.0, 3.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]
        expected = np.mean([1.0, 1.0 + 20.0, 1.0 + 40.0])
        self.assertAllClose(metrics.interval_score(y, lower, upper, level=0.9), expected)

    def test_true_quantiles_have_the_least_expectation(self) -> None:
        y = np.random.default_rng(1).normal(size=100_000)
        ends = scipy.stats.norm.ppf([0.05, 0.95])

        def score(low: float, high: float) -> float:
            return metrics.interval_score(y, np.full_like(y, low), np.full_like(y, high), level=0.9)

        best = score(*ends)
        density = scipy.stats.norm.pdf(ends[1])
        self.assertAllClose(best, 4 * density / 0.1, rtol=0.01)
        for low, high in ((-1.4, 1.4), (-2.0, 2.0), (-1.645, 2.2)):
            self.assertGreater(score(low, high), best)


class NormalCRPSTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters((0.0, 0.0, 1.0), (1.5, -0.3, 0.7), (-4.0, 1.0, 2.0), (3.0, 2.99, 5.0))
    def test_against_integration(self, y: Any, mean: Any, stddev: Any) -> None:
        cdf = scipy.stats.norm(mean, stddev).cdf
        expected = crps_by_integration(cdf, y, mean - 12 * stddev, mean + 12 * stddev)
        got = metrics.crps_normal([y], [mean], [stddev])
        self.assertAllClose(got, expected, 1e-8)
        self.assertIsInstance(got, float)

    def test_is_the_mean(self) -> None:
        y, mean, stddev = RNG.normal(size=(3, 4, 2))
        stddev = np.exp(stddev)
        each = [
            metrics.crps_normal(*triple)
            for triple in zip(y.ravel(), mean.ravel(), stddev.ravel(), strict=True)
        ]
        self.assertAllClose(metrics.crps_normal(y, mean, stddev), np.mean(each), 1e-12)

    def test_narrow_prediction_is_the_absolute_error(self) -> None:
        for stddev in (1e-12, 1e-160, 1e-300):
            self.assertAllClose(metrics.crps_normal([3.0], [1.0], [stddev]), 2.0, 1e-9)
            metric = metrics.NormalCRPS()
            metric.update_state([[3.0]], tf.constant([[1.0, stddev]], tf.float64))
            self.assertAllClose(metric.result(), 2.0, 1e-9)

    @QUICK
    @given(FINITE, FINITE, st.floats(1e-3, 100), st.floats(0.01, 10))
    def test_positive_and_in_the_units_of_y(
        self, y: Any, mean: Any, stddev: Any, unit: Any
    ) -> None:
        value = metrics.crps_normal([y], [mean], [stddev])
        self.assertGreater(value, 0.0)
        scaled = metrics.crps_normal([unit * y], [unit * mean], [unit * stddev])
        self.assertAllClose(scaled, unit * value, 1e-9)


class SampleCRPSTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(1, 2, 5, 30)
    def test_against_all_pairs(self, size: Any) -> None:
        y, samples = RNG.normal(size=7), RNG.normal(size=(size, 7))
        pairs = [
            np.mean([abs(a - y[i]) for a in column])
            - 0.5 * np.mean([abs(a - b) for a in column for b in column])
            for i, column in enumerate(samples.T)
        ]
        got = metrics.crps_samples(y, samples)
        self.assertAllClose(got, np.mean(pairs), 1e-12)
        self.assertIsInstance(got, float)

    def test_against_integration_of_their_distribution_function(self) -> None:
        samples, y = np.sort(RNG.normal(size=6)), 0.3
        ends = np.sort([*samples, y, -9.0, 9.0])
        middle = (ends[1:] + ends[:-1]) / 2
        steps = (np.searchsorted(samples, middle) / 6 - (middle >= y)) ** 2
        expected = np.sum(steps * np.diff(ends))
        self.assertAllClose(metrics.crps_samples([y], samples[:, None]), expected, 1e-12)

    def test_many_normal_samples(self) -> None:
        y = np.array([-1.0, 0.2, 3.0])
        samples = 0.5 + 2.0 * RNG.normal(size=(40_000, 3))
        expected = metrics.crps_normal(y, np.full(3, 0.5), np.full(3, 2.0))
        self.assertAllClose(metrics.crps_samples(y, samples), expected, 1e-2)

    def test_far_from_zero(self) -> None:
        y, samples = RNG.normal(size=4), RNG.normal(size=(50, 4))
        near = metrics.crps_samples(y, samples)
        self.assertAllClose(metrics.crps_samples(y + 1e6, samples + 1e6), near, 1e-8)

    @QUICK
    @given(FINITE, st.lists(FINITE, min_size=1, max_size=9), st.randoms(use_true_random=False))
    def test_never_negative_and_no_order(self, y: Any, samples: Any, random: Any) -> None:
        value = metrics.crps_samples([y], np.array(samples)[:, None])
        self.assertGreater(value, -1e-12)
        random.shuffle(samples)
        self.assertEqual(metrics.crps_samples([y], np.array(samples)[:, None]), value)

    def test_equal_samples_are_the_absolute_error(self) -> None:
        self.assertAllClose(metrics.crps_samples([1.0], np.full((8, 1), 4.0)), 3.0, 1e-12)


class FairCRPSTest(tf.test.TestCase):
    @QUICK
    @given(FINITE, st.lists(FINITE, min_size=2, max_size=6))
    def test_against_all_pairs_of_two(self, y: Any, samples: Any) -> None:
        x = np.array(samples)
        pairs = np.abs(x[:, None] - x).sum() / (len(x) * (len(x) - 1))
        got = metrics.crps_samples([y], x[:, None], fair=True)
        self.assertAllClose(got, np.abs(x - y).mean() - pairs / 2, 1e-9, 1e-9)

    def test_is_unbiased_for_the_law_of_few_samples(self) -> None:
        """The other is E|X - X'| / (2 S) too large."""
        rng, y, S, N = np.random.default_rng(0), 0.4, 3, 20_000
        samples = rng.normal(size=(S, N))
        expected = metrics.crps_normal([y], [0.0], [1.0])
        each = [metrics.crps_samples([y], samples[:, [n]], fair=True) for n in range(0, N, 40)]
        got = metrics.crps_samples(np.full(N, y), samples, fair=True)
        error = np.std(each) / np.sqrt(N)
        self.assertLess(abs(got - expected), 4 * error)
        plain = metrics.crps_samples(np.full(N, y), samples)
        self.assertAllClose(plain - got, 2 / np.sqrt(np.pi) / (2 * S), rtol=0.02)

    def test_one_sample_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "^fair=True needs two samples at least"):
            metrics.crps_samples([0.0], [[1.0]], fair=True)


if __name__ == "__main__":
    tf.test.main()
