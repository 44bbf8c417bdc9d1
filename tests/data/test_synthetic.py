import math
import unittest
from typing import Any

import numpy as np

from tfbdl.data import blend, noise, rotate

A = np.random.default_rng(0).random((3, 28, 28)).astype(np.float32)
B = np.random.default_rng(1).random((3, 28, 28)).astype(np.float32)


def rotate_by_hand(image: Any, degrees: Any) -> Any:
    """Looks up where each pixel comes from, and weighs the four pixels around that point."""
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    rotated = np.zeros((28, 28))
    for row in range(28):
        for column in range(28):
            right, up = column - 13.5, 13.5 - row
            from_column = 13.5 + cos * right + sin * up
            from_row = 13.5 - (-sin * right + cos * up)
            for i in (math.floor(from_row), math.floor(from_row) + 1):
                for j in (math.floor(from_column), math.floor(from_column) + 1):
                    if 0 <= i < 28 and 0 <= j < 28:
                        share = (1 - abs(from_row - i)) * (1 - abs(from_column - j))
                        rotated[row, column] += share * image[i, j]
    return rotated


class ImagesTestCase(unittest.TestCase):
    def assert_images(self, images: Any, expected: Any, tolerance: float = 1e-5) -> None:
        self.assertEqual(images.dtype, np.float32)
        self.assertGreaterEqual(images.min(), 0)
        self.assertLessEqual(images.max(), 1)
        np.testing.assert_allclose(images, expected, atol=tolerance)

    def assert_checks_images(self, function: Any, name: str) -> None:
        for shape in ((28, 28), (3, 28, 27), (3, 784), (3, 28, 28, 1)):
            with self.assertRaisesRegex(ValueError, rf"^{name} has shape .*\(N, 28, 28\)$"):
                function(np.zeros(shape))
        for wrong in (-0.1, 1.1, np.nan):
            with self.assertRaisesRegex(ValueError, f"^{name} ranges from"):
                function(np.full((1, 28, 28), wrong))


class RotateTest(ImagesTestCase):
    def test_against_bilinear_interpolation_by_hand(self) -> None:
        for degrees in (17.0, -45, 200):
            expected = [rotate_by_hand(image, degrees) for image in A]
            self.assert_images(rotate(A, degrees), expected)

    def test_quarter_turns_are_counter_clockwise(self) -> None:
        for turns in range(-3, 5):
            expected = np.rot90(A, turns, axes=(1, 2))
            self.assert_images(rotate(A, 90 * turns), expected)

    def test_white_stays_within_range(self) -> None:
        rotated = rotate(np.ones((1, 28, 28)), 33)
        self.assertLessEqual(rotated.max(), 1)
        self.assertEqual(rotated[0, 0, 0], 0)

    def test_errors(self) -> None:
        self.assert_checks_images(lambda images: rotate(images, 10), "images")
        for degrees in (math.nan, math.inf):
            with self.assertRaisesRegex(ValueError, "^degrees=.* must be finite$"):
                rotate(A, degrees)


class BlendTest(ImagesTestCase):
    def test_values(self) -> None:
        self.assert_images(blend(A, B), (A + B) / 2, tolerance=1e-6)
        self.assert_images(blend(A, B, 0.25), 0.75 * A + 0.25 * B, tolerance=1e-6)
        np.testing.assert_array_equal(blend(A, B, 0), A)
        np.testing.assert_array_equal(blend(A, B, weight=1), B)

    def test_white_stays_within_range(self) -> None:
        white = np.ones((1, 28, 28))
        for weight in np.linspace(0, 1, 101):
            self.assert_images(blend(white, white, weight), white, tolerance=1e-6)

    def test_errors(self) -> None:
        self.assert_checks_images(lambda images: blend(images, B), "a")
        self.assert_checks_images(lambda images: blend(A, images), "b")
        with self.assertRaisesRegex(ValueError, r"^b has shape \(2, 28, 28\).*\(3, 28, 28\)$"):
            blend(A, B[:2])
        for weight in (-0.1, 1.1, math.nan):
            with self.assertRaisesRegex(ValueError, r"^weight=.* must be in \[0, 1\]$"):
                blend(A, B, weight)


class NoiseTest(unittest.TestCase):
    def test_uniform(self) -> None:
        images = noise(200, seed=0)
        self.assertEqual(images.dtype, np.float32)
        self.assertEqual(images.shape, (200, 28, 28))
        counts, _ = np.histogram(images, bins=10, range=(0, 1))
        self.assertEqual(counts.sum(), images.size)
        self.assertLess(np.abs(counts / images.size - 0.1).max(), 0.005)

    def test_the_seed_decides(self) -> None:
        np.testing.assert_array_equal(noise(2, seed=1), noise(2, seed=1))
        self.assertTrue(np.any(noise(2, seed=1) != noise(2, seed=2)))

    def test_errors(self) -> None:
        for n in (0, -1, 1.5, True):
            with self.assertRaisesRegex(ValueError, "^n=.* must be a positive integer$"):
                noise(n, seed=0)
