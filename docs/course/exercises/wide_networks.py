"""Solutions to the exercises of "Wide networks are Gaussian processes"."""

from __future__ import annotations

import numpy as np
import scipy.stats


def relu_moments() -> tuple[float, float]:
    """E[h^2] and E[h^4] of max(u, 0), u ~ N(0, 1): half of 1 and of 3, by symmetry."""
    u = np.linspace(0, 12, 100_001)
    law = scipy.stats.norm.pdf(u)
    return float(np.trapezoid(law * u**2, u)), float(np.trapezoid(law * u**4, u))


def excess_kurtosis(second: float, fourth: float, width: int) -> float:
    """3 (E[h^4] / E[h^2]^2 - 1) / H, of normal output weights.

    For phi(u) = u the moments are 1 and 3: 6 / H. Even a linear network multiplies two normal
    weights, and products of normals have heavier tails than a normal.
    """
    return 3 * (fourth / second**2 - 1) / width


def cosines(depth: int, start: float = 0.0) -> list[float]:
    """Of two inputs after each layer, ReLU with sigma_w^2 = 2 and no biases.

    E[phi phi'] = sqrt(K K') (sin t + (pi - t) cos t) / (2 pi), times 2: the diagonal stays, and the
    cosine goes to (sin t + (pi - t) cos t) / pi, whose only fixed point is 1. Very deep wide
    networks give all inputs the same output, up to the norm: about 1 - cos = 9 pi^2 / (2 depth^2).
    """
    values = [start]
    for _ in range(depth):
        angle = np.arccos(min(values[-1], 1.0))
        values.append(float((np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi))
    return values


def kurtosis_of_signs(width: int, draws: int = 400_000, seed: int = 0) -> float:
    """Of f = sum_j v_j h_j with v_j = +-1 / sqrt(H) and ReLU units of N(0, 1).

    The covariance is the same and the sum still of independent vectors, so the limit is the same
    process. The terms are symmetric with fourth moment E[h^4] / H^2 instead of 3 E[h^4] / H^2: the
    excess kurtosis is (E[h^4] / E[h^2]^2 - 3) / H = 3 / H, a fifth of that of normal weights.
    """
    rng = np.random.default_rng(seed)
    h = np.maximum(rng.standard_normal((draws, width)), 0)
    f = np.sum(rng.choice([-1.0, 1.0], h.shape) * h, axis=1) / np.sqrt(width)
    return float(scipy.stats.kurtosis(f))
