"""The base of all detectors: what they learn from training data, and how unusual others are."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import Any, TypeVar

import keras
import numpy as np

from tfbdl.as_call import as_call
from tfbdl.detection.features import Features, Part

Self = TypeVar("Self", bound="Detector")


class Detector(abc.ABC):
    """A score of each example that is larger the less it is like the training data.

        detector = tfbdl.detection.Mahalanobis(model).fit(x, y)
        scores = detector.score(x_new)

    The model is looked at with its mean weights, as it is at the time of each call: `fit` again
    after training. Scores have no unit that two detectors share; `tfbdl.metrics.auroc` and
    `false_positive_rate` compare them.

    Args:
        features: the part of a model that makes the features or logits of each example.
    """

    def __init__(self, features: Features) -> None:
        self._features = features
        self._size: int | None = None
        self._num_examples = 0

    @property
    def model(self) -> keras.Model | None:
        """The model that makes the features; None where they are given."""
        return self._features.model

    @property
    def layer(self) -> keras.layers.Layer | str | None:
        """The layer whose outputs are the features, as it was given."""
        return self._features.layer

    def fit(
        self: Self,
        x: Any,
        y: Any = None,
        *,
        batch_size: int | None = None,
        steps: int | None = None,
    ) -> Self:
        """Learns from examples in the distribution, best those that the model was trained on.

        Args:
            x: inputs of the model, in every form that `tfbdl.predict` takes; without a model
                features or logits, an array of shape (N, D), or batches of such.
            y: integer labels, shape (N,), where the detector needs them; None beside batches.
            batch_size: examples that the model takes at a time; None for as many as hold a
                million numbers.
            steps: the number of batches to take of a data set; None for all.

        Returns:
            The detector itself.

        Raises:
            ValueError: if the data do not fit each other, the model, or the detector.
        """
        read = {"batch_size": batch_size, "steps": steps}
        sizes: list[int] = []
        parts = self._features.parts(x, y, needs_y=self.needs_labels, **read)
        self._learn(_counted(parts, sizes))
        self._num_examples = sum(sizes)
        return self

    def score(
        self, x: Any, *, batch_size: int | None = None, steps: int | None = None
    ) -> np.ndarray:
        """How unusual each example is, float64 of shape (N,).

        Args:
            x: as in `fit`.
            batch_size: as in `fit`.
            steps: as in `fit`.

        Raises:
            ValueError: before `fit`, or if the data do not fit the model or what was learned.
        """
        self._check_fitted()
        parts = self._features.parts(x, batch_size=batch_size, steps=steps)
        scores = [self._score(self._checked(part.values)) for part in parts]
        if not scores:
            raise ValueError("x has no batches; give at least one example")
        return np.concatenate(scores)

    needs_labels = False
    """Whether `fit` takes labels."""

    @abc.abstractmethod
    def _learn(self, parts: Iterator[Part]) -> None:
        """Learns from all parts."""

    @abc.abstractmethod
    def _score(self, values: np.ndarray) -> np.ndarray:
        """The scores of features or logits of shape (B, D)."""

    def __repr__(self) -> str:
        return f"{as_call(self)}{self._fitted_to()}"

    def _fitted_to(self) -> str:
        if self._size is None:
            return ", not fitted"
        return f", fitted to {self._num_examples:,} examples of {self._size:,} features"

    def _check_fitted(self) -> None:
        if self._size is None:
            raise ValueError(f"score needs a fitted {type(self).__name__}; call fit first")

    def _checked(self, values: np.ndarray) -> np.ndarray:
        if self._size not in (None, values.shape[1]):
            raise ValueError(
                f"x has {values.shape[1]} features, and fit had {self._size}; give as many"
            )
        return values

    def _gathered(self, parts: Iterator[Part]) -> np.ndarray:
        """The features of all examples, shape (N, D)."""
        arrays = [part.values for part in parts]
        if not arrays:
            raise ValueError("x has no batches; give at least one example")
        if len({array.shape[1] for array in arrays}) > 1:
            raise ValueError("x has batches of different numbers of features; give as many in all")
        return np.concatenate(arrays)


def _counted(parts: Iterator[Part], sizes: list[int]) -> Iterator[Part]:
    """The parts, of which each leaves its number of examples in `sizes`."""
    for part in parts:
        sizes.append(len(part.values))
        yield part
