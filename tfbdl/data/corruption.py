"""Corrupted images, at five strengths, to see what a shift of the data does to a model.

The kinds and strengths follow the idea of CIFAR-10-C (Hendrycks and Dietterich 2019, section 3);
the images are made here, and are not those of its files.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tfbdl import arguments
from tfbdl.arguments import integer, option
from tfbdl.data.checks import unit_interval

STDDEVS = (0.04, 0.06, 0.08, 0.09, 0.10)
"""Standard deviations of Gaussian noise, by strength."""
BRIGHTER = (0.05, 0.10, 0.15, 0.20, 0.30)
"""What the value of each colour gains."""
KEPT = (0.95, 0.90, 0.85, 0.75, 0.65)
"""The share of rows and of columns that pixelation keeps."""
ZOOMS = (1.06, 1.11, 1.16, 1.21, 1.26)
"""The largest magnification; 1 is the least."""


def corrupt(images: Any, kind: str, strength: int, *, seed: int = 0) -> np.ndarray:
    """Corrupts images.

    Args:
        images: (N, H, W, C), values in [0, 1].
        kind: "gaussian_noise", independent in each number; "brightness", added to the value of the
            colour (the largest of its channels), with hue and saturation kept; "pixelation", means
            over larger pixels; or "zoom_blur", the mean over magnifications by up to a quarter.
        strength: 1 to 5.
        seed: integer of 64 bits, of the noise; the same seed gives the same images.

    Returns:
        float32 (N, H, W, C) in [0, 1].

    Raises:
        ValueError: if `images` has another shape or values outside [0, 1], there is no such kind
            or strength, or `seed` is no such integer.

    """
    images = unit_interval("images", images)
    if images.ndim != 4 or 0 in images.shape:
        raise ValueError(f"images has shape {images.shape}; give images of shape (N, H, W, C)")
    corruption = CORRUPTIONS[option("kind", kind, tuple(CORRUPTIONS))]
    strength = integer("strength", strength, least=1, most=5)
    corrupted = corruption(images, strength - 1, arguments.generator("seed", seed))
    return np.clip(corrupted, 0, 1).astype(np.float32)


def _gaussian_noise(images: np.ndarray, level: int, rng: np.random.Generator) -> np.ndarray:
    return images + STDDEVS[level] * rng.standard_normal(images.shape, np.float32)


def _brightness(images: np.ndarray, level: int, rng: np.random.Generator) -> np.ndarray:
    value = images.max(axis=-1, keepdims=True)
    brighter = np.minimum(value + BRIGHTER[level], 1)
    return np.where(value > 0, images * (brighter / np.where(value > 0, value, 1)), brighter)


def _pixelation(images: np.ndarray, level: int, rng: np.random.Generator) -> np.ndarray:
    return _by_rows_and_columns(images, lambda size: _means(size, max(1, int(KEPT[level] * size))))


def _zoom_blur(images: np.ndarray, level: int, rng: np.random.Generator) -> np.ndarray:
    zooms = np.linspace(1, ZOOMS[level], round(100 * (ZOOMS[level] - 1)) + 1)
    magnified = (_by_rows_and_columns(images, lambda n, z=z: _magnified(n, z)) for z in zooms)
    return np.mean(list(magnified), axis=0)


CORRUPTIONS: dict[str, Callable[[np.ndarray, int, np.random.Generator], np.ndarray]] = {
    "gaussian_noise": _gaussian_noise,
    "brightness": _brightness,
    "pixelation": _pixelation,
    "zoom_blur": _zoom_blur,
}


def _by_rows_and_columns(images: np.ndarray, matrix: Callable[[int], np.ndarray]) -> np.ndarray:
    """R image K^T of each channel, R and K the matrices for the numbers of rows and columns."""
    rows, columns = (matrix(size).astype(np.float32) for size in images.shape[1:3])
    return np.einsum("ri,nijc,kj->nrkc", rows, images, columns, optimize=True)


def _means(size: int, kept: int) -> np.ndarray:
    """Each of `size` numbers replaced by the mean over that of `kept` equal cells it is in."""
    edges = np.linspace(0, size, kept + 1)
    left, right = edges[:-1, None], edges[1:, None]
    pixels = np.arange(size)
    overlap = np.clip(np.minimum(right, pixels + 1) - np.maximum(left, pixels), 0, None)
    cell = ((pixels + 0.5) * kept / size).astype(int)
    return (overlap * kept / size)[cell]


def _magnified(size: int, zoom: float) -> np.ndarray:
    """Linear interpolation at places that are `zoom` times nearer to the middle."""
    middle = (size - 1) / 2
    places = middle + (np.arange(size) - middle) / zoom
    return np.clip(1 - np.abs(places[:, None] - np.arange(size)), 0, None)
