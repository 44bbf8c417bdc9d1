"""Intervals and distributions predicted for real numbers.

Arrays may have any shape, all arguments the same one; means are over all of their elements.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.special
from numpy.typing import ArrayLike

from tfbdl.metrics import array_checks


def interval_coverage(y: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> float:
    """Share of the targets with lower <= y <= upper.

    Args:
        y: targets, shape (N, ...).
        lower: lower ends of the intervals, of the shape of y.
        upper: upper ends, of the shape of y.

    Raises:
        ValueError: if the shapes differ, a value is not finite, or a lower end is above its upper.
    """
    y, lower, upper = array_checks.alike(y=y, lower=lower, upper=upper)
    _check_interval(lower, upper)
    return float(np.mean((lower <= y) & (y <= upper)))


def interval_width(lower: ArrayLike, upper: ArrayLike) -> float:
    """Mean of upper - lower, in the units of the targets.

    Args:
        lower: lower ends of the intervals, shape (N, ...).
        upper: upper ends, of the same shape.

    Raises:
        ValueError: if the shapes differ, a value is not finite, or a lower end is above its upper.
    """
    lower, upper = array_checks.alike(lower=lower, upper=upper)
    _check_interval(lower, upper)
    return float(np.mean(upper - lower))


def crps_normal(y: ArrayLike, mean: ArrayLike, stddev: ArrayLike) -> float:
    """Mean continuous ranked probability score of N(mean, stddev^2), in the units of y.

    The integral over t of (P(Y <= t) - 1[y <= t])^2, small is good; for z = (y - mean) / stddev it
    is stddev (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)), the negative of what Gneiting
    and Raftery 2007, section 4.2, maximise.

    Args:
        y: targets, shape (N, ...).
        mean: predicted means, of the shape of y.
        stddev: predicted standard deviations, > 0, of the shape of y.

    Raises:
        ValueError: if the shapes differ, a value is not finite, or a stddev is not positive.
    """
    y, mean, stddev = array_checks.alike(y=y, mean=mean, stddev=stddev)
    if (stddev <= 0).any():
        raise ValueError(
            f"stddev has {array_checks.first(stddev, stddev <= 0)}; give positive standard "
            "deviations"
        )
    error = y - mean
    with np.errstate(over="ignore"):  # the density is 0, and the score |error|, from far away
        z = error / stddev
        density = np.exp(-0.5 * np.square(z)) / math.sqrt(2.0 * math.pi)
    of_width = stddev * (2.0 * density - 1.0 / math.sqrt(math.pi))
    return float(np.mean(error * scipy.special.erf(z / math.sqrt(2.0)) + of_width))


def crps_samples(y: ArrayLike, samples: ArrayLike) -> float:
    """Mean continuous ranked probability score of the samples, in the units of y.

    E|X - y| - 1/2 E|X - X'| (Gneiting and Raftery 2007, section 4.2), with X and X' drawn with
    replacement from the S samples: the score of the distribution they make. As an estimate of the
    score of the one they come from, it is E|X - X'| / (2 S) too large on average. Sorted samples
    x_(1) <= ... <= x_(S) have E|X - X'| = 2 / S^2 sum_i (2 i - S - 1) x_(i), so that it takes
    O(S log S).

    Args:
        y: targets, shape (N, ...).
        samples: predicted samples, shape (S, N, ...).

    Raises:
        ValueError: if the shapes do not fit or a value is not finite.
    """
    y, samples = array_checks.real("y", y), array_checks.real("samples", samples)
    if samples.shape[1:] != y.shape or samples.ndim == y.ndim:
        raise ValueError(
            f"samples has shape {samples.shape}; y of shape {y.shape} needs (S, *y.shape)"
        )
    deviations = np.sort(samples - y, axis=0)
    size = len(deviations)
    ranks = 2.0 * np.arange(1, size + 1) - size - 1.0
    half_difference = np.tensordot(ranks, deviations, axes=1) / size**2
    return float(np.mean(np.abs(deviations).mean(axis=0) - half_difference))


def _check_interval(lower: np.ndarray, upper: np.ndarray) -> None:
    wrong = lower > upper
    if wrong.any():
        raise ValueError(
            f"lower has {array_checks.first(lower, wrong)}, where upper has "
            f"{upper[wrong][0]:g}; give lower <= upper"
        )
