"""What joint densities are made of, kept of all examples as long as it is little."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

KEPT = 10_000_000
"""Numbers of covariances, or of their roots, that are kept: 80 MB."""

FEW_OUTPUTS = 100
"""Outputs of an example at several positions up to which Laplace knows how these vary together."""


class Kept:
    """Arrays of one batch after the other, up to `KEPT` numbers; beyond that none at all.

    Args:
        one_at_least: whether a single example is kept however large it is.
    """

    def __init__(self, *, one_at_least: bool = False) -> None:
        self._one_at_least = one_at_least
        self._arrays: list[np.ndarray] | None = []
        self._numbers = 0

    def add(self, shape: tuple[int, ...], make: Callable[[], np.ndarray]) -> None:
        """Keeps an array, shape (B, ...), which is made only if it is kept."""
        if self._arrays is None:
            return
        self._numbers += math.prod(shape)
        limit = max(KEPT, math.prod(shape[1:])) if self._one_at_least else KEPT
        if self._numbers <= limit:
            self._arrays.append(make())
        else:
            self._arrays = None

    def whole(self) -> np.ndarray | None:
        """The arrays of all batches as one, shape (N, ...); None if they are not kept."""
        return np.concatenate(self._arrays) if self._arrays else None
