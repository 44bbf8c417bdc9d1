"""Black-and-white images from grey ones, for models with Bernoulli pixels."""

from typing import Any

import numpy as np

from tfbdl.arguments import generator
from tfbdl.data.checks import unit_interval


def binarize(x: Any, seed: int) -> np.ndarray:
    """Draws each pixel once: 1 with the probability that its grey level states, else 0.

    This is static binarisation: do it once before training, so that every epoch and every
    model sees the same images.

    Args:
        x: grey levels in [0, 1], of any shape.
        seed: integer of 64 bits; the same seed gives the same images.

    Returns:
        float32 array of the shape of `x` holding only 0 and 1.

    Raises:
        ValueError: if a grey level is not finite or not in [0, 1], or `seed` is no such integer.

    """
    probabilities = unit_interval("x", x)
    uniform = generator("seed", seed).random(probabilities.shape, dtype=np.float32)
    return (uniform < probabilities).astype(np.float32)
