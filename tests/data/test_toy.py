import math
import unittest
from typing import Any

import numpy as np

from tfbdl.data import blundell_curve, gal_linear, gapped_sine

MANY = 40_000


def curve(x: Any) -> Any:
    return x + 0.3 * np.sin(2 * np.pi * x) + 0.3 * np.sin(4 * np.pi * x)


class EveryToyTest(unittest.TestCase):
    def test_shapes_dtypes_and_seeds(self) -> None:
        for draw in (gal_linear, blundell_curve, gapped_sine):
            for n in (1, 2, 7):
                x, y = draw(n, seed=3)
                for array in (x, y):
                    self.assertEqual(array.shape, (n, 1))
                    self.assertEqual(array.dtype, np.float32)
                np.testing.assert_array_equal(draw(n, seed=3), (x, y))
                self.assertFalse(np.any(draw(n, seed=4)[0] == x))

    def test_n_is_a_positive_int(self) -> None:
        for draw in (gal_linear, blundell_curve, gapped_sine):
            for n in (0, -1, 2.0, None, True):
                with self.assertRaisesRegex(ValueError, "^n=.* must be a positive integer$"):
                    draw(n, seed=0)


class GalLinearTest(unittest.TestCase):
    def test_least_squares_finds_the_line(self) -> None:
        x, y = (array[:, 0].astype(np.float64) for array in gal_linear(MANY, seed=0))
        slope, intercept = np.polyfit(x, y, 1)
        self.assertAlmostEqual(slope, 2, delta=5 / math.sqrt(MANY))
        self.assertAlmostEqual(intercept, 8, delta=5 / math.sqrt(MANY))
        self.assertAlmostEqual(np.std(y - 2 * x - 8), 1, delta=5 / math.sqrt(2 * MANY))
        self.assertAlmostEqual(np.mean(x), 0, delta=5 / math.sqrt(MANY))
        self.assertAlmostEqual(np.std(x), 1, delta=5 / math.sqrt(2 * MANY))


class BlundellCurveTest(unittest.TestCase):
    def test_inputs_are_uniform(self) -> None:
        x, _ = blundell_curve(MANY, seed=0)
        counts, _ = np.histogram(x, bins=10, range=(0, 0.5))
        self.assertEqual(counts.sum(), MANY)
        self.assertLess(np.abs(counts / MANY - 0.1).max(), 0.01)

    def test_without_noise_it_is_the_curve(self) -> None:
        x, y = blundell_curve(100, seed=0, noise_stddev=0)
        np.testing.assert_allclose(y, curve(x), atol=1e-6)

    def test_noise_moves_along_the_curve_and_off_it(self) -> None:
        """y(x, e) = curve(x + e), since the e outside the sines completes x to x + e."""
        for arguments, stddev in (({}, 0.02), ({"noise_stddev": 0.001}, 0.001)):
            x, y = (a.astype(np.float64) for a in blundell_curve(MANY, seed=1, **arguments))
            noise = 1 + 0.6 * np.pi * np.cos(2 * np.pi * x) + 1.2 * np.pi * np.cos(4 * np.pi * x)
            is_straight = np.abs(noise) > 3
            e = ((y - curve(x)) / noise)[is_straight]
            self.assertAlmostEqual(np.std(e) / stddev, 1, delta=0.05)

    def test_noise_stddev_is_finite_and_not_negative(self) -> None:
        for stddev in (-0.1, math.nan, math.inf):
            with self.assertRaisesRegex(ValueError, "^noise_stddev=.* finite and at least 0$"):
                blundell_curve(3, seed=0, noise_stddev=stddev)


class GappedSineTest(unittest.TestCase):
    def test_inputs_leave_the_gap(self) -> None:
        x, _ = gapped_sine(MANY, seed=0)
        self.assertTrue(np.all((np.abs(x) >= 1) & (np.abs(x) <= 3)))
        self.assertEqual(np.sum(x > 0), MANY / 2)
        self.assertAlmostEqual(np.mean(np.abs(x)), 2, delta=0.02)
        self.assertEqual(np.sum(gapped_sine(7, seed=0)[0] > 0), 4)

    def test_outputs_are_a_noisy_sine(self) -> None:
        x, y = gapped_sine(MANY, seed=0)
        residual = y - np.sin(2 * x)
        self.assertAlmostEqual(np.mean(residual), 0, delta=0.5 / math.sqrt(MANY))
        self.assertAlmostEqual(np.std(residual), 0.1, delta=0.5 / math.sqrt(2 * MANY))
