"""The continuous ranked probability score, element by element (Gneiting and Raftery 2007)."""

from __future__ import annotations

import math
from typing import Any

from tfbdl.metrics.either import erf, operations


def of_normal(y: Any, mean: Any, stddev: Any) -> Any:
    """The score of N(mean, stddev^2), in the units of y; all of one shape, as the scores are."""
    ops, error = operations(y), y - mean
    z = error / stddev
    density = ops.exp(-0.5 * ops.square(z)) / math.sqrt(2.0 * math.pi)
    of_z = erf(ops.clip(z, -10.0, 10.0) / math.sqrt(2.0))  # NaN far outside
    return error * of_z + stddev * (2.0 * density - 1.0 / math.sqrt(math.pi))


def of_samples(y: Any, samples: Any, axis: int, fair: bool = False) -> Any:
    """The score of the empirical law of S samples along an axis, of the shape of y.

    Sorted samples x_(1) <= ... <= x_(S) have E|X - X'| = 2 / S^2 sum_i (2 i - S - 1) x_(i); for
    two different ones (`fair`) S (S - 1) is in the place of S^2.
    """
    ops = operations(y)
    deviations = ops.sort(samples - ops.expand_dims(y, axis), axis=axis)
    size = ops.shape(deviations)[axis]
    ranks = 2 * ops.arange(1, size + 1, dtype="float64") - size - 1
    half_difference = ops.tensordot(deviations, ranks, axes=[[axis], [0]])
    half_difference /= size * (size - 1 if fair else size)
    return ops.mean(abs(deviations), axis=axis) - half_difference
