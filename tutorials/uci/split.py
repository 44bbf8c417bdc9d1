"""One split of a regression, as networks see it, and the scores of a prediction in its own units.

Inputs and targets are normalised by what is trained on (Hernandez-Lobato and Adams 2015): mean 0
and standard deviation 1, with constant inputs set to 0. With y = m + s z,

    log p(y) = log p(z) - log s.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tfbdl.data import RegressionData
from tfbdl.predictive import Prediction


class Split(NamedTuple):
    """Normalised data, float32.

    Attributes:
        x: (N, D), to train on.
        y: (N, 1).
        x_test: (M, D).
        y_test: (M, 1).
        loc: m, the mean of the training targets.
        scale: s, their standard deviation.
        raw: the data as they were.
    """

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    loc: float
    scale: float
    raw: RegressionData

    @classmethod
    def of(cls, raw: RegressionData) -> Split:
        """The data, normalised by their training part."""
        loc, scale = raw.x_train.mean(axis=0), raw.x_train.std(axis=0)
        scale = np.where(np.ptp(raw.x_train, axis=0) == 0.0, 1.0, scale)
        m, s = float(raw.y_train.mean()), float(raw.y_train.std())
        x, x_test = (((a - loc) / scale).astype(np.float32) for a in (raw.x_train, raw.x_test))
        y, y_test = (((a - m) / s).astype(np.float32) for a in (raw.y_train, raw.y_test))
        return cls(x, y, x_test, y_test, m, s, raw)

    @property
    def validation(self) -> Split:
        """The last 20 % of the training part, to test what the rest trains: for all choices."""
        x, y = self.raw.x_train, self.raw.y_train
        first = round(0.8 * len(x))
        return Split.of(RegressionData(x[:first], y[:first], x[first:], y[first:]))

    def scores(self, prediction: Prediction) -> dict[str, float]:
        """Scores of the normalised test targets' prediction, in the units of the data.

        The root of the mean squared error of the predictive mean, and the mean log density of a
        test target, in nats.
        """
        error = prediction.mean - self.y_test
        return {
            "rmse": self.scale * float(np.sqrt(np.mean(error.astype(np.float64) ** 2))),
            "log_likelihood": float(np.mean(prediction.log_prob(self.y_test)) - np.log(self.scale)),
        }


def noise_of(prediction: Prediction) -> float:
    """The predicted noise: the root of its mean square over examples."""
    assert prediction.aleatoric_variance is not None, "of a regression"
    return float(np.mean(prediction.aleatoric_variance) ** 0.5)
