import colorsys
import unittest

import numpy as np
from scipy.ndimage import map_coordinates

from tfbdl.data import corrupt
from tfbdl.data.corruption import BRIGHTER, CORRUPTIONS, STDDEVS, ZOOMS

IMAGES = np.random.default_rng(0).random((3, 20, 13, 3)).astype(np.float32)


class CorruptionTest(unittest.TestCase):
    def test_noise_has_its_standard_deviation_and_seed(self) -> None:
        grey = np.full((100, 16, 16, 3), 0.5)
        for strength, stddev in enumerate(STDDEVS, start=1):
            noise = corrupt(grey, "gaussian_noise", strength, seed=3) - 0.5
            self.assertLess(abs(noise.std() / stddev - 1), 5 / np.sqrt(2 * noise.size))
            self.assertLess(abs(noise.mean()), 5 * stddev / np.sqrt(noise.size))
        again = corrupt(grey, "gaussian_noise", 5, seed=3) - 0.5
        np.testing.assert_array_equal(noise, again)
        self.assertTrue(np.any(noise != corrupt(grey, "gaussian_noise", 5, seed=4) - 0.5))

    def test_brightness_keeps_hue_and_saturation(self) -> None:
        images = np.concatenate([IMAGES[0].reshape(-1, 3), np.eye(3), np.ones((1, 3))])
        for strength, more in enumerate(BRIGHTER, start=1):
            bright = corrupt(images[None, None], "brightness", strength)[0, 0]
            for before, after in zip(images, bright, strict=True):
                h, s, v = colorsys.rgb_to_hsv(*map(float, before))
                expected = colorsys.hsv_to_rgb(h, s, min(v + more, 1.0))
                np.testing.assert_allclose(after, expected, atol=1e-6)
        black = corrupt(np.zeros((1, 1, 1, 3)), "brightness", 2)
        np.testing.assert_allclose(black, np.full((1, 1, 1, 3), BRIGHTER[1]), rtol=1e-6)

    def test_pixelation_is_means_over_cells(self) -> None:
        """The integral of the image as a function that is constant on each pixel says the same."""
        size, kept, fine = 20, 13, 20 * 13
        pixelated = corrupt(IMAGES[:, :, :1], "pixelation", 5)  # a column of its own: rows alone
        for image, result in zip(IMAGES[:, :, 0], pixelated[:, :, 0], strict=True):
            cells = np.repeat(image, fine // size, axis=0).reshape(kept, fine // kept, 3).mean(1)
            middles = (np.arange(size) * (fine // size) + fine // size // 2) // (fine // kept)
            np.testing.assert_allclose(result, cells[middles], atol=1e-6)

    def test_zoom_blur_is_the_mean_over_magnifications(self) -> None:
        for strength, largest in enumerate(ZOOMS, start=1):
            zooms = np.arange(1.0, largest + 0.005, 0.01)
            blurred = corrupt(IMAGES, "zoom_blur", strength)
            rows, columns = np.meshgrid(np.arange(20.0), np.arange(13.0), indexing="ij")
            expected = np.mean(
                [
                    map_coordinates(
                        IMAGES[1, :, :, 2], [9.5 + (rows - 9.5) / z, 6 + (columns - 6) / z], order=1
                    )
                    for z in zooms
                ],
                axis=0,
            )
            np.testing.assert_allclose(blurred[1, :, :, 2], expected, atol=1e-5)

    def test_stronger_is_farther_and_all_stay_images(self) -> None:
        for kind in CORRUPTIONS:
            distances = []
            for strength in range(1, 6):
                corrupted = corrupt(IMAGES, kind, strength)
                self.assertEqual((corrupted.dtype, corrupted.shape), (np.float32, IMAGES.shape))
                self.assertGreaterEqual(corrupted.min(), 0)
                self.assertLessEqual(corrupted.max(), 1)
                distances.append(np.abs(corrupted - IMAGES).mean())
            self.assertEqual(distances, sorted(distances), kind)

    def test_mistakes_are_said_in_one_line(self) -> None:
        for arguments, words in (
            ((IMAGES[0], "brightness", 1), "^images has shape .* of shape \\(N, H, W, C\\)"),
            ((255 * IMAGES, "brightness", 1), "^images ranges from .* .divide 8-bit pixels"),
            ((IMAGES, "fog", 1), "^kind='fog' is unknown; .*gaussian_noise"),
            ((IMAGES, "brightness", 0), "^strength=0 must be"),
            ((IMAGES, "brightness", 6), "^strength=6 must be"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                corrupt(*arguments)
        with self.assertRaisesRegex(ValueError, "^seed=1.5 must be"):
            corrupt(IMAGES, "gaussian_noise", 1, seed=1.5)


if __name__ == "__main__":
    unittest.main()
