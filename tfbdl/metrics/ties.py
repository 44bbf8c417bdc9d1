"""Examples that a ranking cannot tell apart."""

from __future__ import annotations

import numpy as np


def average_over_ties(values: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Each value replaced by the mean of all whose key is the same.

    That is its expectation if tied examples stand in random order, so that what is computed from
    it in the order of the keys does not depend on how the examples came.

    Args:
        values: shape (N,).
        keys: the values that examples are ranked by, shape (N,).

    Returns:
        float64 of shape (N,).
    """
    _, group = np.unique(keys, return_inverse=True)
    return (np.bincount(group, weights=values) / np.bincount(group))[group]
