"""Distances from training examples that are near."""

from __future__ import annotations

from collections.abc import Iterator

import keras
import numpy as np

from tfbdl.arguments import positive_integer
from tfbdl.detection.base import Detector
from tfbdl.detection.features import Features, Part


class NearestNeighbors(Detector):
    """The distance from the k-th nearest training example, of features scaled to length 1.

    The method is that of Sun et al. (2022). It assumes no law of the features, and holds all of
    them in memory: N D numbers of float32. Features of length 0 stay where they are. A training
    example is its own neighbour.

    Args:
        model: a trained classifier; None where features are given instead.
        layer: as in `Mahalanobis`.
        k: the number of the neighbour. The paper takes 50 of 50,000 images of CIFAR-10 and 1,000
            of ImageNet's 1.3 million; it should be far below the number of examples of a class.

    Raises:
        ValueError: if the model or the layer is none, or `k` no positive integer.
    """

    def __init__(
        self,
        model: keras.Model | None = None,
        layer: keras.layers.Layer | str | None = None,
        *,
        k: int = 50,
    ) -> None:
        super().__init__(Features(model, layer))
        self.k = positive_integer("k", k)

    def _learn(self, parts: Iterator[Part]) -> None:
        from sklearn.neighbors import NearestNeighbors as Search  # noqa: PLC0415

        known = self._gathered(part._replace(values=_scaled(part.values)) for part in parts)
        if len(known) < self.k:
            raise ValueError(f"k={self.k} needs as many examples; x has {len(known)}")
        self._search = Search(n_neighbors=self.k).fit(known)
        self._size = known.shape[1]

    def _score(self, values: np.ndarray) -> np.ndarray:
        distances, _ = self._search.kneighbors(_scaled(values))
        return distances[:, -1].astype(np.float64)


def _scaled(values: np.ndarray) -> np.ndarray:
    largest = np.abs(values).max(axis=1, keepdims=True)
    values = values / np.where(largest > 0, largest, 1.0)  # their squares do not overflow
    length = np.linalg.norm(values, axis=1, keepdims=True)
    return (values / np.where(length > 0, length, 1.0)).astype(np.float32)
