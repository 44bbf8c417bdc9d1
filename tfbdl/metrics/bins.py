"""Equal bins of [0, 1]."""

from __future__ import annotations

import numpy as np


def inner_edges(num_bins: int) -> np.ndarray:
    """Where one bin ends and the next begins, shape (num_bins - 1,)."""
    return np.arange(1, num_bins) / num_bins


def bin_index(p: np.ndarray, num_bins: int) -> np.ndarray:
    """Bin m of each p, which is in (m / num_bins, (m + 1) / num_bins]; 0 is in the first.

    Closed on the right as in Guo et al. 2017, so that 1 is in the last bin.
    """
    return np.searchsorted(inner_edges(num_bins), p, side="left")
