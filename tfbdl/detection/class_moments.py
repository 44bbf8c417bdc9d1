"""Means of classes and their shared scatter, from batches of examples."""

from __future__ import annotations

import numpy as np


class ClassMoments:
    """Counts, means and scatter of D features, merged batch by batch (Chan et al. 1983).

    Attributes:
        counts: examples of each class so far, by label.
        means: the mean of each class so far, shape (D,), by label.
        within: the sum over examples of (f - mean of its class)(f - mean)^T, shape (D, D).
    """

    def __init__(self, size: int) -> None:
        self.counts: dict[int, int] = {}
        self.means: dict[int, np.ndarray] = {}
        self.within = np.zeros((size, size))

    def add(self, features: np.ndarray, y: np.ndarray) -> None:
        """Adds B examples: features (B, D), float64, and labels (B,)."""
        labels, index = np.unique(y, return_inverse=True)
        counts = np.bincount(index)
        means = np.eye(len(labels))[:, index] @ features / counts[:, np.newaxis]
        centred = features - means[index]
        shifts = np.stack(
            [self._merge(*of_class) for of_class in zip(labels, counts, means, strict=True)]
        )
        self.within += centred.T @ centred + shifts.T @ shifts

    def between(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean of all examples, (D,), and the scatter of their classes' means about it."""
        counts, means = self.stacked()
        mean = counts @ means / counts.sum()
        shifts = np.sqrt(counts)[:, np.newaxis] * (means - mean)
        return mean, shifts.T @ shifts

    def stacked(self) -> tuple[np.ndarray, np.ndarray]:
        """Counts (C,) and means (C, D), in the order of labels."""
        labels = sorted(self.counts)
        return np.array([self.counts[c] for c in labels]), np.stack([self.means[c] for c in labels])

    def _merge(self, label: int, count: int, mean: np.ndarray) -> np.ndarray:
        """The move of a class's mean, scaled to the root of the scatter that it adds."""
        before = self.counts.get(label, 0)
        shift = mean - self.means.get(label, mean)
        total = before + count
        self.counts[label] = total
        self.means[label] = mean - before / total * shift
        return np.sqrt(before * count / total) * shift
