"""Equal bins of [0, 1]."""

from __future__ import annotations

import numpy as np

from tfbdl.arguments import positive_integer

MOST = 1_000_000
"""Bins, beyond which hardly one has two examples."""


def number_of_bins(num_bins: int) -> int:
    """`num_bins`, if it is a positive integer up to a million.

    Raises:
        ValueError: if it is not.
    """
    return positive_integer("num_bins", num_bins, most=MOST)


def inner_edges(num_bins: int) -> np.ndarray:
    """The inner edges of equal bins, shape (num_bins - 1,)."""
    return np.arange(1, num_bins) / num_bins


def bin_index(p: np.ndarray, num_bins: int) -> np.ndarray:
    """Bin m of each p, which is in (m / num_bins, (m + 1) / num_bins]; 0 is in the first.

    Closed on the right as in Guo et al. 2017, so that 1 is in the last bin.
    """
    return np.searchsorted(inner_edges(num_bins), p, side="left")
