"""Whether data look like those that the model makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tfbdl.arguments import function, shown
from tfbdl.examples import examples


class PredictiveCheck(NamedTuple):
    """The result of `predictive_check`.

    Attributes:
        observed: T(y) of the data.
        replicated: T of each replicated data set, shape (S,).
        p_value: the share of replicated values above the observed one, and half of those equal to
            it.
    """

    observed: float
    replicated: np.ndarray
    p_value: float


def predictive_check(
    y: Any, replicates: Any, statistic: Callable[[np.ndarray], float]
) -> PredictiveCheck:
    """Compares a statistic T of data with that of data sets that the model makes.

    The posterior predictive p-value (Rubin 1984; Gelman, Meng, Stern 1996): near 0 or 1 the model
    does not make what T measures. Choose a T that the training does not fit: the largest value, the
    share of zeros, a correlation of neighbours; that of a mean is near 1/2 whatever is wrong. The
    data have been used twice, and so the p-value of a right model is nearer to 1/2 than uniform.
    With replicates under the prior, the p-value is uniform if the data come from that prior.

    Args:
        y: the data, shape (N, ...).
        replicates: data sets, shape (S, N, ...), as `replicate` makes them.
        statistic: T, a function of one data set, (N, ...), that gives a number, such as `np.max`.

    Raises:
        ValueError: if the shapes do not fit, a value is not finite, or T gives no finite number.
    """
    wanted = "a function of one data set that gives a finite number, such as np.max"
    if isinstance(statistic, type):
        raise ValueError(f"statistic={shown(statistic)} is a class; give {wanted}")
    function("statistic", statistic, wanted)
    y, replicates = examples("y", y), examples("replicates", replicates)
    if y.ndim == replicates.ndim - 2 and replicates.shape[-1] == 1:
        y = y[..., np.newaxis]
    if replicates.shape[1:] != y.shape:
        raise ValueError(
            f"replicates has shape {replicates.shape}; y of shape {y.shape} needs (S, *y.shape)"
        )

    def value(data: np.ndarray) -> float:
        of_data = np.asarray(statistic(data))
        if of_data.ndim or of_data.dtype.kind not in "fiub" or not np.isfinite(of_data):
            raise ValueError(f"statistic gives {shown(of_data.tolist())}; give {wanted}")
        return float(of_data)

    observed = value(y)
    replicated = np.array([value(data) for data in replicates])
    above = (replicated > observed) + 0.5 * (replicated == observed)
    return PredictiveCheck(observed, replicated, float(above.mean()))
