"""Temperature scaling: one number that calibrates a classifier afterwards."""

from __future__ import annotations

import numpy as np
import scipy.optimize
import scipy.special
from numpy.typing import ArrayLike

from tfbdl.arguments import positive
from tfbdl.examples import as_array
from tfbdl.metrics import array_checks


def apply_temperature(logits: ArrayLike, temperature: float) -> np.ndarray:
    """softmax(logits / temperature), float64 of the same shape (Guo et al. 2017, eq. 9).

    Args:
        logits: shape (N, C), or (N, ..., C) of positions.
        temperature: > 0; above 1 it makes predictions less certain.

    Raises:
        ValueError: if the logits are no finite matrix or the temperature is not positive.
    """
    holds = "a positive number, such as fit_temperature gives"
    temperature = positive("temperature", temperature, holds)
    z = of_positions(logits)
    return scipy.special.softmax(z / temperature, axis=-1)


def fit_temperature(y: ArrayLike, logits: ArrayLike) -> float:
    """The temperature T > 0 that minimises the negative log likelihood of softmax(logits / T).

    Fit it on held-out examples (Guo et al. 2017, section 4.2). The NLL is convex in b = 1 / T, and
    its derivative, the mean of E[z] - z[y] under softmax(b z), increases in b: E[z] is the mean
    logit at b = 0 and the largest one at infinity. The optimum is the root of the derivative,
    between 0 and a b found by doubling.

    Args:
        y: integer labels, shape (N,), or (N, ...) of positions.
        logits: shape (N, C), or (N, ..., C).

    Raises:
        ValueError: if y are no labels or the logits no finite matrix; if there is no optimum,
            because all labels have the largest logit (T would go to 0), or labels' logits are on
            average no larger than others (T would go to infinity).
    """
    y, logits = array_checks.as_examples(y, "logits", logits)
    z = matrix(logits)
    y = array_checks.labels(y, "logits", z)
    below_top = z - z.max(axis=1, keepdims=True)
    largest_gap = -below_top.min() or 1.0
    below_top = below_top / largest_gap
    missing = -below_top[np.arange(len(y)), y].mean()

    def derivative(b: float) -> float:
        p = scipy.special.softmax(b * below_top, axis=1)
        return float((p * below_top).sum(axis=1).mean() + missing)

    if derivative(0.0) >= 0:
        raise ValueError(
            "logits of the labels are on average no larger than the others, so no temperature is "
            "best; check that y belongs to logits"
        )
    if missing == 0:
        raise ValueError(
            "logits are largest for the label in all examples, so temperature 0 would be best; "
            "give more held-out examples, some of them misclassified"
        )
    upper = 1.0
    while derivative(upper) < 0:
        upper *= 2.0
    root = scipy.optimize.brentq(derivative, 0.0, upper, xtol=1e-300, rtol=1e-12, maxiter=1000)
    return float(largest_gap / root)


def matrix(logits: ArrayLike) -> np.ndarray:
    """Logits in float64.

    Raises:
        ValueError: if they are not finite, or not of shape (N, C), C > 1.
    """
    z = array_checks.real("logits", logits)
    if z.ndim != 2 or z.shape[1] < 2:
        raise ValueError(f"logits has shape {z.shape}; give shape (N, C) of two or more classes")
    return z


def of_positions(logits: ArrayLike) -> np.ndarray:
    """Logits in float64, of shape (N, C) or (N, ..., C).

    Raises:
        ValueError: as `matrix`.
    """
    z = as_array("logits", logits)
    return matrix(z if z.ndim < 3 else z.reshape(-1, z.shape[-1])).reshape(z.shape)
