"""Values of predicted distribution functions at targets, and how far they are from uniform."""

from typing import Any

import numpy as np
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized

from tfbdl import metrics

RNG = np.random.default_rng(0)


class TransformTest(tf.test.TestCase):
    def test_by_hand(self) -> None:
        y = np.array([[0.5, 3.0], [1.0, 1.0]])
        samples = np.array([y * 0, y * 0 + 1.0, y * 0 + 2.0, y * 0 + 2.0])
        expected = [[0.25, 1.0], [0.375, 0.375]]
        self.assertAllClose(metrics.probability_integral_transform(y, samples), expected)

    def test_right_distributions_give_uniform_ranks(self) -> None:
        S, N = 9, 4000
        mean = RNG.normal(size=N)
        u = metrics.probability_integral_transform(
            mean + RNG.normal(size=N), mean + RNG.normal(size=(S, N))
        )
        counts = np.bincount(np.rint(S * u).astype(int), minlength=S + 1)
        self.assertGreater(scipy.stats.chisquare(counts).pvalue, 1e-3)


class ErrorTest(tf.test.TestCase, parameterized.TestCase):
    def test_against_loops(self) -> None:
        u = RNG.beta(2, 3, size=(20, 3))
        levels = np.arange(1, 10) / 10
        expected = np.mean([abs(np.mean(u <= q) - q) for q in levels])
        self.assertAllClose(metrics.quantile_calibration_error(u, num_levels=9), expected)

    def test_many_levels_are_the_distance_to_the_uniform_law(self) -> None:
        """Wasserstein's distance, the area between the two distribution functions."""
        u = RNG.beta(2, 3, size=50)
        grid = (np.arange(100_000) + 0.5) / 100_000
        expected = scipy.stats.wasserstein_distance(u, grid)
        got = metrics.quantile_calibration_error(u, num_levels=100_000)
        self.assertAllClose(got, expected, rtol=1e-3)

    def test_what_noise_makes(self) -> None:
        got = [metrics.quantile_calibration_error(RNG.random(200)) for _ in range(400)]
        error = np.std(got) / np.sqrt(len(got))
        self.assertLess(
            abs(np.mean(got) - np.sqrt(2 / np.pi) * np.pi / 8 / np.sqrt(200)), 5 * error
        )

    @parameterized.parameters(([0.5, 1.2], "^pit has 1.2"), ([0.5, np.nan], "^pit has nan"))
    def test_refusals(self, pit: Any, message: str) -> None:
        with self.assertRaisesRegex(ValueError, message):
            metrics.quantile_calibration_error(pit)


if __name__ == "__main__":
    tf.test.main()
