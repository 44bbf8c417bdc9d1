"""Intervals and distributions predicted for real numbers.

Arrays may have any shape, all arguments the same one; means are over all of their elements.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tfbdl.arguments import boolean, number
from tfbdl.metrics import array_checks, crps, intervals


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
    return float(intervals.covered(y, lower, upper).mean())


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


def interval_score(y: ArrayLike, lower: ArrayLike, upper: ArrayLike, level: float = 0.95) -> float:
    """Mean score of central intervals at `level`, in the units of y; small is good.

    The width, and 2 / (1 - level) times the distance by which y is outside (Gneiting and Raftery
    2007, equation 43). It is proper: the true quantiles have the least expectation.

    Args:
        y: targets, shape (N, ...).
        lower: lower ends of the intervals, of the shape of y.
        upper: upper ends, of the shape of y.
        level: the probability that the intervals claim, in (0, 1).

    Raises:
        ValueError: if the shapes differ, a value is not finite, a lower end is above its upper, or
            `level` is out of range.
    """
    level = number("level", level, lambda v: 0 < v < 1, "in (0, 1)")
    y, lower, upper = array_checks.alike(y=y, lower=lower, upper=upper)
    _check_interval(lower, upper)
    return float(intervals.score(y, lower, upper, level).mean())


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
    return float(crps.of_normal(y, mean, stddev).mean())


def crps_samples(y: ArrayLike, samples: ArrayLike, *, fair: bool = False) -> float:
    """Mean continuous ranked probability score of the samples, in the units of y.

    E|X - y| - 1/2 E|X - X'| (Gneiting and Raftery 2007, section 4.2), with X and X' drawn with
    replacement from the S samples: the score of the distribution they make. As an estimate of the
    score of the distribution that they come from, it is E|X - X'| / (2 S) too large on average,
    unless it is `fair`. It takes O(S log S).

    Args:
        y: targets, shape (N, ...).
        samples: predicted samples, shape (S, N, ...).
        fair: whether X and X' are two different samples, which is unbiased for the law that they
            come from (Ferro 2014); it needs two samples.

    Raises:
        ValueError: if the shapes do not fit, a value is not finite, or one sample is to be fair.
    """
    fair = boolean("fair", fair)
    y, samples = array_checks.with_samples(y, samples)
    if fair and len(samples) < 2:
        raise ValueError(f"fair={fair} needs two samples at least; samples has {len(samples)}")
    return float(crps.of_samples(y, samples, axis=0, fair=fair).mean())


def _check_interval(lower: np.ndarray, upper: np.ndarray) -> None:
    wrong = lower > upper
    if wrong.any():
        raise ValueError(
            f"lower has {array_checks.first(lower, wrong)}, where upper has "
            f"{upper[wrong][0]:g}; give lower <= upper"
        )
