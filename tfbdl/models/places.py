"""Which weights of a network members have for themselves, and which they share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np


class Places:
    """Variables of a network: those that members have for themselves, and those that they share."""

    def __init__(self, variables: Sequence[keras.Variable], own: Sequence[int] | None) -> None:
        number = len(variables)
        self.places = list(range(number)) if own is None else sorted(own)
        self.shapes = [tuple(v.shape) for v in variables]
        self.shapes_of_own = [self.shapes[i] for i in self.places]
        self.size = sum(map(math.prod, self.shapes_of_own))
        self.own = [variables[i] for i in self.places]
        self._of_shared = [i for i in range(number) if i not in set(self.places)]
        self.shared = [variables[i] for i in self._of_shared]

    def own_row(self, row: np.ndarray) -> np.ndarray:
        """The numbers of a row of all that are of own ones."""
        parts = self._split(row)
        return np.concatenate([np.zeros(0, row.dtype), *(parts[i] for i in self.places)])

    def shared_parts(self, row: np.ndarray, size: int) -> list[np.ndarray]:
        """The values of shared ones in a row of all, each in its shape."""
        if row.shape != (size,):
            raise ValueError(f"theta has shape {row.shape}; give ({size},)")
        parts = self._split(row)
        return [parts[i].reshape(self.shapes[i]) for i in self._of_shared]

    def merged(self, own: Sequence[Any], shared: Sequence[Any]) -> Iterator[Any]:
        """Values of all, from those of both kinds."""
        values = dict(zip([*self.places, *self._of_shared], [*own, *shared], strict=True))
        return (values[i] for i in range(len(values)))

    def _split(self, row: np.ndarray) -> list[np.ndarray]:
        return np.split(row, np.cumsum([math.prod(shape) for shape in self.shapes])[:-1])
