"""Isotonic calibration: for each class the best rising map of its probability."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tfbdl.arguments import instance
from tfbdl.metrics import array_checks
from tfbdl.metrics.vector_scaling import all_there, same_classes


class IsotonicMap(NamedTuple):
    """The map of `fit_isotonic`: lines between points, level outside of them.

    Attributes:
        thresholds: for each class the probabilities at its points, rising.
        values: for each class what they become.
    """

    thresholds: tuple[np.ndarray, ...]
    values: tuple[np.ndarray, ...]


def fit_isotonic(y: ArrayLike, p: ArrayLike) -> IsotonicMap:
    """The rising functions g_c with the least squares of 1[y = c] - g_c(p_c), one for each class.

    Zadrozny and Elkan (2002): classes against the rest, each by scikit-learn's
    `IsotonicRegression`; what comes out is divided by its sum. It assumes nothing but order, and so
    needs more held-out examples than maps with parameters, about a thousand for each class; equal
    probabilities get equal values, and many ties are made.

    Args:
        y: integer labels, shape (N,); each class has to be there.
        p: class probabilities, shape (N, C); or P(y = 1), shape (N,) or (N, 1).

    Raises:
        ValueError: if y are no labels, p no probabilities, or a class is missing.
    """
    from sklearn.isotonic import IsotonicRegression  # noqa: PLC0415

    y, p = array_checks.classes(y, p)
    all_there(y, p.shape[1])
    fitted = [IsotonicRegression().fit(p_c, y == c) for c, p_c in enumerate(p.T)]
    return IsotonicMap(
        tuple(of_class.X_thresholds_ for of_class in fitted),
        tuple(of_class.y_thresholds_ for of_class in fitted),
    )


def apply_isotonic(p: ArrayLike, mapping: IsotonicMap) -> np.ndarray:
    """Probabilities g_c(p_c), divided by their sum; float64 of shape (N, C).

    Where all are 0, each class has 1 / C, as in scikit-learn.

    Args:
        p: class probabilities, shape (N, C); or P(y = 1), shape (N,) or (N, 1).
        mapping: the map of `fit_isotonic`.

    Raises:
        ValueError: if p are no probabilities, or do not fit the map.
    """
    instance("mapping", mapping, IsotonicMap, "what fit_isotonic gives")
    p = array_checks.probabilities("p", p)
    same_classes("p", p, len(mapping.values))
    mapped = np.stack([np.interp(*each) for each in zip(p.T, *mapping, strict=True)], axis=1)
    total = mapped.sum(axis=1, keepdims=True)
    return np.where(total > 0, mapped / np.where(total > 0, total, 1.0), 1.0 / p.shape[1])
