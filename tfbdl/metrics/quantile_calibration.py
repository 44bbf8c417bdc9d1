"""Calibration of predicted distributions of real numbers, by their values at the targets."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tfbdl.arguments import positive_integer
from tfbdl.metrics import array_checks


def probability_integral_transform(y: ArrayLike, samples: ArrayLike) -> np.ndarray:
    """P(Y <= y) of each target under its samples, of the shape of y.

    The share of samples below y, and half of those equal to it. For targets that come from the
    predicted distributions it is uniform on [0, 1], but for steps of 1 / S: a histogram that rises
    at both ends tells of distributions that are too narrow, one in the middle of those too wide
    (Dawid 1984; Gneiting et al. 2007).

    Args:
        y: targets, shape (N, ...).
        samples: predicted samples of y, noise included, shape (S, N, ...).

    Raises:
        ValueError: if the shapes do not fit or a value is not finite.
    """
    y, samples = array_checks.with_samples(y, samples)
    return np.mean((samples < y) + 0.5 * (samples == y), axis=0)


def quantile_calibration_error(pit: ArrayLike, num_levels: int = 99) -> float:
    """Mean over levels q of |share of targets below their q-quantile - q|, in [0, 1/2].

    The quantile of y is above y where q is above P(Y <= y), so that the values of the
    `probability_integral_transform`, or of any predicted distribution function at the targets, say
    all (Kuleshov et al. 2018, section 3, who square it). Noise makes it larger: for N independent
    targets of right distributions it is 0.31 / sqrt(N) on average.

    Args:
        pit: P(Y <= y) of each target, of any shape, in [0, 1].
        num_levels: K, of the levels k / (K + 1).

    Raises:
        ValueError: if a value is outside [0, 1] or not finite, or K no positive integer.
    """
    u = array_checks.real("pit", pit).ravel()
    outside = (u < 0) | (u > 1)
    if outside.any():
        raise ValueError(f"pit has {array_checks.first(u, outside)}; give values in [0, 1]")
    number = positive_integer("num_levels", num_levels, most=1_000_000)
    levels = np.arange(1, number + 1) / (number + 1)
    shares = np.searchsorted(np.sort(u), levels, side="right") / len(u)
    return float(np.mean(np.abs(shares - levels)))
