"""The interval of a metric: against SciPy's, and its coverage where the truth is known."""

from typing import Any

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized

from tfbdl import metrics


class BootstrapTest(tf.test.TestCase, parameterized.TestCase):
    def test_against_scipy(self) -> None:
        """Both by percentiles of 20,000 sets."""
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=40), rng.normal(size=40)

        def slope(x: Any, y: Any) -> float:
            return float(np.polyfit(x, y, 1)[0])

        got = metrics.confidence_interval(slope, (x, y), level=0.9, num_resamples=4000, seed=1)
        expected = scipy.stats.bootstrap(
            (x, y),
            slope,
            paired=True,
            vectorized=False,
            n_resamples=4000,
            confidence_level=0.9,
            method="percentile",
            random_state=2,
        )
        ends = expected.confidence_interval
        width = ends.high - ends.low
        self.assertAllClose(got, (ends.low, ends.high), atol=0.06 * width)

    def test_covers_the_truth_as_often_as_it_says(self) -> None:
        rng, held = np.random.default_rng(0), []
        for k in range(400):
            low, high = metrics.confidence_interval(
                np.mean, [rng.exponential(size=100)], level=0.8, num_resamples=200, seed=k
            )
            held.append(low <= 1.0 <= high)
        self.assertLess(abs(np.mean(held) - 0.8), 4 * np.sqrt(0.8 * 0.2 / 400) + 0.02)

    def test_of_a_calibration_error(self) -> None:
        rng = np.random.default_rng(0)
        p = rng.dirichlet(np.ones(3), 200)
        y = np.array([rng.choice(3, p=row) for row in p])
        error = metrics.debiased_calibration_error
        low, high = metrics.confidence_interval(error, (y, p), num_resamples=100)
        self.assertLess(low, high)
        again = metrics.confidence_interval(error, (y, p), num_resamples=100)
        self.assertEqual((low, high), again)
        other = metrics.confidence_interval(error, (y, p), num_resamples=100, seed=1)
        self.assertNotEqual((low, high), other)

    @parameterized.parameters(
        ({"arrays": ([1.0, 2.0], keras.Input((4,)))}, r"^arrays\[1\]=.* is no array; give numbers"),
        ({"level": 1.0}, "^level="),
        ({"num_resamples": 0}, "^num_resamples="),
        ({"num_resamples": 10**7}, "^num_resamples=.* 100"),
        ({"seed": 0.5}, "^seed="),
    )
    def test_arguments_are_checked(self, arguments: Any, message: str) -> None:
        with self.assertRaisesRegex(ValueError, message):
            metrics.confidence_interval(**{"metric": np.mean, "arrays": [np.ones(3)], **arguments})

    def test_examples_are_checked(self) -> None:
        with self.assertRaisesRegex(ValueError, "^metric="):
            metrics.confidence_interval("mean", [np.ones(3)])
        with self.assertRaisesRegex(ValueError, r"^arrays=\[\] must be"):
            metrics.confidence_interval(np.mean, [])
        with self.assertRaisesRegex(ValueError, r"^arrays\[0\] has shape \(0,\)"):
            metrics.confidence_interval(np.mean, [[]])
        with self.assertRaisesRegex(ValueError, r"^arrays\[1\] has 2 examples and arrays\[0\]"):
            metrics.confidence_interval(np.mean, [np.ones(3), np.ones(2)])


if __name__ == "__main__":
    tf.test.main()
