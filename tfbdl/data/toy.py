"""One-dimensional regressions with a known truth, for plots of functions and of uncertainty."""

import numpy as np

from tfbdl.arguments import generator as generator_of
from tfbdl.arguments import not_negative
from tfbdl.data.checks import number_of


def gal_linear(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws the synthetic data of Concrete Dropout (Gal, Hron and Kendall, 2017).

    x ~ N(0, 1) and y = 2 x + 8 + N(0, 1): the aleatoric standard deviation is 1 everywhere, and
    the epistemic one goes to 0 as `n` grows.

    Args:
        n: number of points, at least 1.
        seed: integer of 64 bits; the same seed gives the same points.

    Returns:
        x and y, float32 (n, 1) each.

    Raises:
        ValueError: if `n` is not a positive int, or `seed` no such integer.

    """
    shape, generator = (number_of("n", n, 3), 1), generator_of("seed", seed)
    x = generator.standard_normal(shape)
    return _float32(x, 2 * x + 8 + generator.standard_normal(shape))


def blundell_curve(n: int, seed: int, noise_stddev: float = 0.02) -> tuple[np.ndarray, np.ndarray]:
    """Draws the regression curve of Weight Uncertainty (Blundell et al., 2015).

    x ~ U[0, 0.5] and y = x + 0.3 sin(2 pi (x + e)) + 0.3 sin(4 pi (x + e)) + e with
    e ~ N(0, noise_stddev^2): the same noise inside and outside the sines.

    Args:
        n: number of points, at least 1.
        seed: integer of 64 bits; the same seed gives the same points.
        noise_stddev: standard deviation of e, at least 0; 0.02 as in the paper.

    Returns:
        x and y, float32 (n, 1) each.

    Raises:
        ValueError: if `n` is not a positive int, `noise_stddev` not a finite number >= 0, or `seed`
            no such integer.

    """
    noise_stddev = not_negative("noise_stddev", noise_stddev, "finite and at least 0")
    shape, generator = (number_of("n", n, 3), 1), generator_of("seed", seed)
    x = generator.uniform(0, 0.5, shape)
    e = noise_stddev * generator.standard_normal(shape)
    y = x + 0.3 * np.sin(2 * np.pi * (x + e)) + 0.3 * np.sin(4 * np.pi * (x + e)) + e
    return _float32(x, y)


def gapped_sine(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws a noisy sine with nothing in the middle, where functions should spread.

    x is uniform on [-3, -1] and on [1, 3], half the points in each (the odd one on the right),
    and y = sin(2 x) + N(0, 0.1^2).

    Args:
        n: number of points, at least 1.
        seed: integer of 64 bits; the same seed gives the same points.

    Returns:
        x and y, float32 (n, 1) each; right and left points alternate.

    Raises:
        ValueError: if `n` is not a positive int, or `seed` no such integer.

    """
    shape, generator = (number_of("n", n, 3), 1), generator_of("seed", seed)
    side = np.where(np.arange(shape[0]) % 2 == 0, 1, -1)[:, None]
    x = side * generator.uniform(1, 3, shape)
    return _float32(x, np.sin(2 * x) + 0.1 * generator.standard_normal(shape))


def _float32(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x.astype(np.float32), y.astype(np.float32)
