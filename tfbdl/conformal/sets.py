"""Conformal sets of classes."""

from __future__ import annotations

import abc

import numpy as np

from tfbdl import arguments
from tfbdl.arguments import boolean, integer, not_negative
from tfbdl.conformal.base import Conformal, quantile
from tfbdl.predictive import Prediction


class _OfClasses(Conformal):
    """A class is in the set where its score is at most the quantile of the true ones' scores.

    Args:
        by_class: whether each class has a quantile of its own, from its own examples, so that each
            is covered (Vovk 2012, "conditional validity"); sets are larger then, and hold every
            class of which few examples are known.
    """

    def __init__(self, *, by_class: bool = False) -> None:
        self.by_class = boolean("by_class", by_class)

    def predict(self, prediction: Prediction, coverage: float = 0.9) -> np.ndarray:
        """Sets of classes that hold a share `coverage` of new labels: shape (N, C), True for in.

        Args:
            prediction: the prediction of new x, by the model that `fit` had a prediction of.
            coverage: in (0, 1).

        Raises:
            ValueError: before `fit`, if `coverage` is out of its range, or the prediction is not of
                classes.
        """
        limits, _ = self._calibrated(prediction, coverage)
        return self._scores(prediction.mean.astype(np.float64), 1) <= limits

    def _thresholds(self, held_out: Prediction, coverage: float) -> np.ndarray:
        scores = self._scores(held_out.mean.astype(np.float64), 0)
        true = scores[np.arange(len(scores)), self._y]
        if self.by_class:
            classes = range(scores.shape[1])
            return np.array([quantile(true[self._y == c], coverage) for c in classes])
        return quantile(true, coverage)

    def _counts(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.bincount(self._y, minlength=shape[0]) if shape else super()._counts(shape)

    @abc.abstractmethod
    def _scores(self, p: np.ndarray, stream: int) -> np.ndarray:
        """Scores of all classes, shape (N, C), large if unlikely; `stream` keeps noise apart."""

    def _check(self, prediction: Prediction) -> None:
        super()._check(prediction)
        likelihood, shape = prediction.likelihood, prediction.mean.shape
        if likelihood is None or not likelihood.is_discrete or len(shape) != 2 or shape[1] < 2:
            family = "no likelihood" if likelihood is None else type(likelihood).__name__
            raise ValueError(
                f"{type(self).__name__} is for probabilities of classes, shape (N, C), not for "
                f"{family} of shape {shape}; use Split or CQR for real y"
            )

    def _checked_targets(self, prediction: Prediction, y: np.ndarray) -> np.ndarray:
        n, num_classes = prediction.mean.shape
        y = y[:, 0] if y.shape == (n, 1) else y
        if y.shape != (n,) or not np.isin(y, np.arange(num_classes)).all():
            raise ValueError(
                f"y of shape {y.shape} must be {n} labels in 0 .. {num_classes - 1}, one each"
            )
        return y.astype(int)


class LAC(_OfClasses):
    """All classes whose probability is at least a threshold: the score is 1 - p.

    The smallest sets on average where probabilities are right (Sadinle, Lei, Wasserman 2019); hard
    examples may have empty ones.
    """

    def _scores(self, p: np.ndarray, stream: int) -> np.ndarray:
        return 1.0 - p


class APS(_OfClasses):
    """The likeliest classes until their probabilities sum up to a threshold.

    Adaptive prediction sets (Romano, Sesia, Candes 2020): larger for harder examples. The score of
    a class is the probability of all that are likelier, and a uniform share of its own.

    Args:
        randomized: whether that share is drawn, which makes coverage exact; else all of it counts,
            and sets are larger.
        by_class: whether each class has a threshold of its own, and is covered.
        seed: the seed of the shares.

    Raises:
        ValueError: if an argument is out of its range.
    """

    def __init__(self, *, randomized: bool = True, by_class: bool = False, seed: int = 0) -> None:
        super().__init__(by_class=by_class)
        self.randomized = boolean("randomized", randomized)
        self.seed = arguments.seed("seed", seed)

    def _scores(self, p: np.ndarray, stream: int) -> np.ndarray:
        order = np.argsort(-p, axis=1, kind="stable")
        ranked = np.take_along_axis(p, order, axis=1)
        share = np.ones((len(p), 1))
        if self.randomized:
            rng = np.random.default_rng([self.seed % 2**64, stream])
            share = rng.uniform(size=(len(p), 1))
        summed = np.cumsum(ranked, axis=1) - ranked + share * ranked
        scores = np.empty_like(p)
        np.put_along_axis(scores, order, summed + self._penalties(p.shape[1]), axis=1)
        return scores

    def _penalties(self, num_classes: int) -> np.ndarray:
        """Penalties of the first, the second, ... class of an example, added to their scores."""
        return np.zeros(num_classes)


class RAPS(APS):
    """`APS` with a penalty on each class beyond the first k, so that no set has a long tail.

    Regularised adaptive prediction sets (Angelopoulos et al. 2021, equation 4).

    Args:
        penalty: lambda, what each class beyond the first `free` adds to the score.
        free: k_reg, how many classes are free of it.
        randomized: as in `APS`.
        by_class: as in `APS`.
        seed: as in `APS`.

    Raises:
        ValueError: if an argument is out of its range.
    """

    def __init__(
        self,
        *,
        penalty: float = 0.01,
        free: int = 5,
        randomized: bool = True,
        by_class: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(randomized=randomized, by_class=by_class, seed=seed)
        self.penalty = not_negative("penalty", penalty)
        self.free = integer("free", free, least=0)

    def _penalties(self, num_classes: int) -> np.ndarray:
        return self.penalty * np.maximum(np.arange(1, num_classes + 1) - self.free, 0)
