"""Moments of the path of weights along a training, added up in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbdl.flat_model import FlatModel

_BLOCK = 2**15
"""Weights at a time."""


class PathMoments(NamedTuple):
    """Moments of a path of weights.

    mean: the mean of all points, shape (D,), in float64.
    squares: sum of the squared deviations from it, shape (D,), in float64.
    deviations: the deviations of the last K points from the mean until then, shape (K, D), in the
        precision of the weights.
    num_points: the number of points of the path so far.
    """

    mean: np.ndarray
    squares: np.ndarray
    deviations: np.ndarray
    num_points: int

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> PathMoments:
        """The moments that a file holds."""
        number = int(arrays["num_points"])
        return cls(arrays["mean"], arrays["squares"], arrays["deviations"], number)


class Path(keras.callbacks.Callback):
    """The moments of the weights after every `every`-th epoch behind `start`.

    Beside the moments, it needs no memory: a point is never held as a whole.

    Args:
        rank: K.
        start: epochs to leave out at the beginning.
        every: epochs between two points.
    """

    def __init__(self, rank: int, start: int, every: int) -> None:
        super().__init__()
        self.rank, self.start, self.every = rank, start, every
        self.moments: PathMoments | None = None

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        behind = epoch + 1 - self.start
        if behind > 0 and behind % self.every == 0:
            self._add(FlatModel(self.model))

    def _add(self, flat: FlatModel) -> None:
        """Takes up one more point."""
        if self.moments is None:
            least = np.result_type(np.float32, flat.dtype.as_numpy_dtype)
            deviations = np.zeros((0, flat.size), least)
            self.moments = PathMoments(np.zeros(flat.size), np.zeros(flat.size), deviations, 0)
        mean, squares, deviations, num_points = self.moments
        if len(deviations) < self.rank:
            deviations.resize((len(deviations) + 1, flat.size), refcheck=False)
        else:
            for row, later in pairwise(deviations):
                row[:] = later
        for rows, weights in _blocks(flat.model):
            difference = weights - mean[rows]
            mean[rows] += difference / (num_points + 1)
            from_new = weights - mean[rows]
            squares[rows] += difference * from_new
            deviations[-1, rows] = from_new
        self.moments = self.moments._replace(num_points=num_points + 1)

    def get_state(self) -> dict[str, np.ndarray]:
        """The moments so far."""
        if self.moments is None:
            return {"num_points": np.array(0)}
        return {name: np.asarray(value) for name, value in self.moments._asdict().items()}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Restores the state from `get_state`, whose arrays it changes from then on."""
        if int(state["num_points"]):
            self.moments = PathMoments.of_arrays(state)


def _blocks(model: keras.Model) -> Iterator[tuple[slice, np.ndarray]]:
    """Parts of theta, each with its place in it."""
    begin = 0
    for variable in model.trainable_variables:
        weights = tf.reshape(variable, [-1])
        for first in range(0, weights.shape[0], _BLOCK):
            part = weights[first : first + _BLOCK].numpy()
            yield slice(begin + first, begin + first + len(part)), part
        begin += weights.shape[0]
