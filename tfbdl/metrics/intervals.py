"""Intervals held against targets, element by element."""

from __future__ import annotations

from typing import Any

from tfbdl.metrics.either import operations


def covered(y: Any, lower: Any, upper: Any) -> Any:
    """Whether lower <= y <= upper; all of one shape."""
    return (lower <= y) & (y <= upper)


def score(y: Any, lower: Any, upper: Any, level: float) -> Any:
    """The interval score of Gneiting and Raftery 2007, equation 43; all of one shape."""
    ops = operations(y)
    outside = ops.maximum(lower - y, 0.0) + ops.maximum(y - upper, 0.0)
    return upper - lower + 2.0 / (1.0 - level) * outside
