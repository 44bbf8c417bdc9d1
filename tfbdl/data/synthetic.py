"""Images that ought to make a classifier uncertain: rotated digits, mixtures of two, noise."""

import math
from typing import Any

import numpy as np

from tfbdl.arguments import generator, number
from tfbdl.data.checks import number_of, unit_interval


def rotate(images: Any, degrees: float) -> np.ndarray:
    """Rotates images counter-clockwise about their centre, with bilinear interpolation.

    Args:
        images: (N, 28, 28), values in [0, 1].
        degrees: angle in degrees; negative is clockwise.

    Returns:
        float32 (N, 28, 28) in [0, 1]. What enters from outside the frame is 0 (no ink).

    Raises:
        ValueError: if `images` has another shape or values outside [0, 1], or `degrees` is not
            finite.

    """
    from scipy.ndimage import rotate as rotate_array  # noqa: PLC0415

    images = _images("images", images)
    degrees = number("degrees", degrees, math.isfinite, "finite")
    rotated = rotate_array(
        images, degrees, axes=(1, 2), reshape=False, order=1, mode="grid-constant"
    )
    return np.clip(rotated, 0, 1)


def blend(a: Any, b: Any, weight: float = 0.5) -> np.ndarray:
    """Mixes two batches pixel by pixel: `(1 - weight) * a + weight * b`.

    Args:
        a: (N, 28, 28), values in [0, 1].
        b: (N, 28, 28), values in [0, 1].
        weight: share of `b`, in [0, 1]; the default 0.5 is the most ambiguous.

    Returns:
        float32 (N, 28, 28) in [0, 1].

    Raises:
        ValueError: if the shapes are others, or values or `weight` are outside [0, 1].

    """
    a, b = _images("a", a), _images("b", b)
    if a.shape != b.shape:
        raise ValueError(f"b has shape {b.shape}; give it the shape of a, {a.shape}")
    weight = number("weight", weight, lambda w: 0 <= w <= 1, "in [0, 1]")
    return np.clip((1 - weight) * a + weight * b, 0, 1).astype(np.float32)


def noise(n: int, seed: int) -> np.ndarray:
    """Draws images whose pixels are independent and uniform on [0, 1).

    Args:
        n: number of images, at least 1.
        seed: integer of 64 bits; the same seed gives the same images.

    Returns:
        float32 (n, 28, 28).

    Raises:
        ValueError: if `n` is not a positive int, or `seed` no such integer.

    """
    shape = (number_of("n", n, 784), 28, 28)
    return generator("seed", seed).random(shape, dtype=np.float32)


def _images(name: str, values: Any) -> np.ndarray:
    images = unit_interval(name, values)
    if images.ndim != 3 or images.shape[1:] != (28, 28):
        raise ValueError(f"{name} has shape {images.shape}; give images of shape (N, 28, 28)")
    return images
