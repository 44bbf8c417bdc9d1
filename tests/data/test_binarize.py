import unittest
from unittest import mock

import numpy as np

from tfbdl.data import binarize


class BinarizeTest(unittest.TestCase):
    def test_only_zeros_and_ones_of_the_same_shape(self) -> None:
        for shape in ((), (0, 28, 28), (5,), (3, 28, 28)):
            x = np.random.default_rng(0).random(shape)
            binary = binarize(x, seed=1)
            self.assertEqual(binary.dtype, np.float32)
            self.assertEqual(binary.shape, shape)
            self.assertTrue(set(np.unique(binary)) <= {0.0, 1.0})

    def test_black_and_white_stay(self) -> None:
        x = np.random.default_rng(0).integers(0, 2, (20, 28, 28))
        np.testing.assert_array_equal(binarize(x, seed=1), x)

    def test_black_stays_even_for_the_lowest_draw(self) -> None:
        with mock.patch("numpy.random.default_rng") as default_rng:
            default_rng.return_value.random.return_value = np.zeros(2, np.float32)
            np.testing.assert_array_equal(binarize([0.0, 1e-9], seed=0), [0, 1])

    def test_frequencies_are_the_grey_levels(self) -> None:
        n = 100_000
        levels = np.array([0.01, 0.25, 0.5, 0.9])
        frequencies = binarize(np.tile(levels, (n, 1)), seed=2).mean(axis=0, dtype=np.float64)
        errors = np.abs(frequencies - levels) / np.sqrt(levels * (1 - levels) / n)
        self.assertLess(errors.max(), 5)

    def test_pixels_are_independent(self) -> None:
        binary = binarize(np.full((100_000, 2), 0.5), seed=3)
        self.assertLess(abs(np.corrcoef(binary.T)[0, 1]), 5 / np.sqrt(100_000))
        self.assertLess(abs(np.corrcoef(binary[1:, 0], binary[:-1, 0])[0, 1]), 5 / 300)

    def test_the_seed_decides(self) -> None:
        x = np.full((10, 28, 28), 0.5)
        np.testing.assert_array_equal(binarize(x, seed=4), binarize(x, seed=4))
        self.assertTrue(np.any(binarize(x, seed=4) != binarize(x, seed=5)))

    def test_the_argument_is_unchanged(self) -> None:
        x = np.full((4,), 0.5, np.float32)
        binarize(x, seed=0)
        np.testing.assert_array_equal(x, np.full((4,), 0.5))

    def test_values_outside_are_errors(self) -> None:
        for wrong in (-0.001, 1.001, 255, np.nan, np.inf, -np.inf, 1e300):
            with self.assertRaisesRegex(ValueError, r"^x ranges from .* in \[0, 1\] .*255\)$"):
                binarize(np.array([0.5, wrong]), seed=0)
        for unreal, what in (
            (["ink"], "has dtype <U3"),
            ([None], "holds None"),
            ([1j], "has dtype"),
        ):
            with self.assertRaisesRegex(ValueError, f"^x {what}.*; give real numbers"):
                binarize(unreal, seed=0)
