"""Conformal intervals of real y."""

from __future__ import annotations

import abc
from typing import NamedTuple

import numpy as np

from tfbdl.arguments import boolean
from tfbdl.conformal.base import Conformal, quantile
from tfbdl.predictive import Prediction


class Intervals(NamedTuple):
    """Lower and upper ends, each of the shape of y; infinite where data are too few."""

    lower: np.ndarray
    upper: np.ndarray


class _OfReals(Conformal):
    """Each output of several has its own quantile, and covers on its own."""

    def predict(self, prediction: Prediction, coverage: float = 0.9) -> Intervals:
        """Intervals that hold a share `coverage` of new y.

        Args:
            prediction: the prediction of new x, by the model that `fit` had a prediction of.
            coverage: in (0, 1).

        Raises:
            ValueError: before `fit`, if `coverage` is out of its range, or the likelihood is one of
                classes.
        """
        margin, coverage = self._calibrated(prediction, coverage)
        lower, upper, unit = self._raw(prediction, coverage)
        return Intervals(lower - margin * unit, upper + margin * unit)

    def _thresholds(self, held_out: Prediction, coverage: float) -> np.ndarray:
        lower, upper, unit = self._raw(held_out, coverage)
        return quantile(np.maximum(lower - self._y, self._y - upper) / unit, coverage)

    @abc.abstractmethod
    def _raw(
        self, prediction: Prediction, coverage: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lower ends, upper ends, and the units of their shifts, each with the shape of y."""

    def _check(self, prediction: Prediction) -> None:
        super()._check(prediction)
        if prediction.likelihood is not None and prediction.likelihood.is_discrete:
            family = type(prediction.likelihood).__name__
            raise ValueError(
                f"{type(self).__name__} is for real y, not for {family}; use LAC, APS or RAPS"
            )

    def _checked_targets(self, prediction: Prediction, y: np.ndarray) -> np.ndarray:
        shape = prediction.mean.shape
        if y.shape == shape[:-1] and shape[-1:] == (1,):
            y = y[..., np.newaxis]
        if y.shape != shape:
            raise ValueError(f"y has shape {y.shape}; give the shape of the prediction, {shape}")
        return y.astype(np.float64)


class Split(_OfReals):
    """mean(x) -+ q stddev(x), with q from the absolute residuals of data held out.

    The method is that of Papadopoulos et al. (2002); with the model's own standard deviation as
    unit, that of Lei et al. (2018, section 5.2). Take it where a model's mean is what it is good
    at.

    Args:
        normalized: whether residuals are counted in units of the predicted standard deviation, so
            that intervals are as wide as the model is unsure; else all are equally wide.

    Raises:
        ValueError: if `normalized` is no truth value.
    """

    def __init__(self, *, normalized: bool = True) -> None:
        self.normalized = boolean("normalized", normalized)

    def _raw(
        self, prediction: Prediction, coverage: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        mean = prediction.mean.astype(np.float64)
        return mean, mean, prediction.stddev if self.normalized else np.ones_like(mean)


class CQR(_OfReals):
    """The model's own central interval, its ends moved out, or in, by the same amount.

    Conformalised quantile regression (Romano, Patterson, Candes 2019): q is the quantile of
    max(low - y, y - high). Take it where the model's quantiles say more than its mean and standard
    deviation, as they do under mixtures and predicted scales.
    """

    def _raw(
        self, prediction: Prediction, coverage: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        lower, upper = prediction.interval(coverage)
        return lower.astype(np.float64), upper.astype(np.float64), np.ones_like(lower)
