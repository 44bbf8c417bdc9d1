"""The choice of hyperparameters on the last 20 % of the training part."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy.optimize
import scipy.special
import scipy.stats

from tfbdl.predictive import Prediction
from tutorials.uci.split import Split


def best(values: Sequence[float], fit: Callable[[float, Split], Prediction], data: Split) -> float:
    """The value whose `fit` to the rest predicts these targets best, by mean log density."""
    held_out = data.validation
    scores = {value: fit(value, held_out).log_prob(held_out.y_test).mean() for value in values}
    return max(values, key=scores.__getitem__)


def best_with_noise(
    values: Sequence[float], fit: Callable[[float, Split], Prediction], data: Split
) -> tuple[float, float]:
    """The best value, and the noise, for functions that are fitted without one."""
    held_out = data.validation
    scores = {value: best_noise(fit(value, held_out), held_out.y_test) for value in values}
    value = max(values, key=scores.__getitem__)
    return value, scores[value][1]


def best_noise(prediction: Prediction, y: np.ndarray) -> tuple[float, float]:
    """The highest mean log density of y, in nats, over the noises of functions; and that noise."""
    outputs = prediction.outputs

    def loss(log_sigma: float) -> float:
        logs = scipy.stats.norm.logpdf(y, outputs, np.exp(log_sigma))  # (S, N, 1)
        return float(np.log(len(logs)) - scipy.special.logsumexp(logs, axis=0).mean())

    optimum = scipy.optimize.minimize_scalar(loss, bounds=np.log([1e-3, 2.0]), method="bounded")
    return -float(optimum.fun), float(np.exp(optimum.x))
