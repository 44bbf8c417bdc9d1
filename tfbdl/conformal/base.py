"""The base of all conformal methods: scores of held-out data, and their quantile."""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tfbdl.arguments import instance, number
from tfbdl.as_call import as_call
from tfbdl.examples import as_array, check_finite, examples
from tfbdl.predictive import Prediction

Self = TypeVar("Self", bound="Conformal")

_ROWS = 50
"""The most thresholds that are shown one by one."""


def quantile(scores: np.ndarray, coverage: float) -> np.ndarray:
    """The ceil((n + 1) coverage)-th smallest of n scores along the first axis; infinite beyond n.

    A new score that is exchangeable with these is at most so large with a probability of at least
    `coverage`, and of less than `coverage` + 1 / (n + 1) where no two are equal (Vovk, Gammerman,
    Shafer 2005; Lei et al. 2018, theorem 2.2).

    Args:
        scores: shape (n, ...).
        coverage: in (0, 1).

    Raises:
        ValueError: if the scores are no finite numbers, or `coverage` is out of its range.
    """
    scores, coverage = as_array("scores", scores), _coverage(coverage)
    if scores.ndim == 0:
        raise ValueError(f"scores is the number {scores:g}; give an array of scores")
    check_finite("scores", scores)
    n = len(scores)
    k = math.ceil(round((n + 1) * coverage, 9))
    if k > n:
        return np.full(scores.shape[1:], np.inf)
    return np.partition(scores, k - 1, axis=0)[k - 1]


def _coverage(value: Any) -> float:
    return number("coverage", value, lambda c: 0 < c < 1, "in (0, 1)")


@dataclass(frozen=True)
class Calibration:
    """The thresholds of a conformal method at one coverage; printed, a line for each.

    Attributes:
        title: the method.
        coverage: the coverage that is asked for.
        thresholds: the quantiles of the scores of held-out data, infinite where these are too few:
            a number; for real y with several outputs an array of the shape of one y; with
            `by_class` one of shape (C,).
        num_examples: the number of held-out examples behind each, of the same shape.
    """

    title: str
    coverage: float
    thresholds: np.ndarray
    num_examples: np.ndarray

    def __str__(self) -> str:
        lines = [f"{self.title}, coverage {self.coverage:g}"]
        for index in list(np.ndindex(self.thresholds.shape))[:_ROWS]:
            name = f"[{','.join(map(str, index))}]" if self.thresholds.size > 1 else ""
            value, count = self.thresholds[index], self.num_examples[index]
            lines.append(f"threshold{name} {value:.4g} of {count:,} examples")
        more = self.thresholds.size - _ROWS
        return "\n".join(lines + [f"and {more:,} more"] * (more > 0))

    __repr__ = __str__


class Conformal(abc.ABC):
    """Keeps a prediction of data that no training has seen, and what y was there.

    If new data come from where these do, what `predict` answers holds the new y with a probability
    of at least `coverage`, whatever the model; on average over data to calibrate by and over x, not
    for each x. A model that is wrong gives wide intervals and large sets.
    """

    _prediction: Prediction | None = None
    _y: np.ndarray

    def fit(self: Self, prediction: Prediction, y: Any) -> Self:
        """Calibrates by data held out; returns the object itself.

        Args:
            prediction: the prediction of held-out x, from `tfbdl.predict`.
            y: the targets there, shape (n, ...).

        Raises:
            ValueError: if y does not fit the prediction, or it is not such as the method is for.
        """
        self._check(prediction)
        y = examples("y", y)
        self._y = self._checked_targets(prediction, y)
        self._prediction = prediction
        return self

    def summary(self, coverage: float = 0.9) -> Calibration:
        """The thresholds by which `predict` answers, and the number of examples behind each.

        Args:
            coverage: in (0, 1).

        Raises:
            ValueError: before `fit`, or if `coverage` is out of its range.
        """
        coverage = _coverage(coverage)
        held_out = self._held_out("summary")
        thresholds = np.asarray(self._thresholds(held_out, coverage))
        return Calibration(repr(self), coverage, thresholds, self._counts(thresholds.shape))

    def __repr__(self) -> str:
        fitted = self._prediction is not None
        state = f"fitted to {len(self._y):,} examples" if fitted else "not fitted"
        return f"{as_call(self)}, {state}"

    def _calibrated(self, prediction: Prediction, coverage: float) -> tuple[np.ndarray, float]:
        """The thresholds at a coverage, and the coverage, for a prediction; all checked."""
        coverage = _coverage(coverage)
        held_out = self._held_out("predict")
        self._check(prediction)
        return self._thresholds(held_out, coverage), coverage

    def _held_out(self, what: str) -> Prediction:
        """The prediction to calibrate by; `what` is what needs it."""
        if self._prediction is None:
            raise ValueError(f"{what} needs a fitted {type(self).__name__}; call fit first")
        return self._prediction

    def _counts(self, shape: tuple[int, ...]) -> np.ndarray:
        """The number of examples behind each threshold."""
        return np.full(shape, len(self._y))

    @abc.abstractmethod
    def _thresholds(self, held_out: Prediction, coverage: float) -> np.ndarray:
        """The quantiles of the scores of held-out data."""

    def _check(self, prediction: Any) -> None:
        """Raises ValueError unless it is a prediction of the kind that the method takes."""
        instance("prediction", prediction, Prediction, "what tfbdl.predict gives")

    @abc.abstractmethod
    def _checked_targets(self, prediction: Prediction, y: np.ndarray) -> np.ndarray:
        """`y` as the scores take it."""
