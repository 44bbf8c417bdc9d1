"""Dirichlet calibration: a linear map of log probabilities, for all classes jointly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.special
from numpy.typing import ArrayLike

from tfbdl.arguments import instance, not_negative
from tfbdl.metrics import array_checks, softmax_regression
from tfbdl.metrics.vector_scaling import all_there, same_classes

_LEAST = float(np.finfo(np.float32).tiny)
"""The probability, whose logarithm is -87, that stands for smaller ones."""


class DirichletMap(NamedTuple):
    """The map of `fit_dirichlet`.

    Attributes:
        weights: W, shape (C, C); entry (i, j) is what log p_i adds to the logit of class j.
        bias: b, shape (C,).
    """

    weights: np.ndarray
    bias: np.ndarray


def fit_dirichlet(
    y: ArrayLike, p: ArrayLike, *, off_diagonal: float = 1e-2, intercept: float = 1e-2
) -> DirichletMap:
    """The W and b that minimise the negative log likelihood of softmax(W^T log p + b), penalised.

    Kull et al. (2019), with off-diagonal and intercept regularisation (ODIR, equation 5): lambda
    times the mean square of W outside of its diagonal and mu times that of b are added to the mean
    in nats. The map is that of a classifier whose probabilities are Dirichlet given the class. It
    has C (C + 1) parameters: fit it on many held-out examples, and choose lambda and mu by
    cross-validation on them, as the authors do; at a large lambda and mu only a factor for each
    class is left.

    Args:
        y: integer labels, shape (N,); each class has to be there.
        p: class probabilities, shape (N, C); or P(y = 1), shape (N,) or (N, 1). Probabilities below
            1e-38 count as 1e-38.
        off_diagonal: lambda, at least 0.
        intercept: mu, at least 0.

    Raises:
        ValueError: if y are no labels, p no probabilities, a class is missing, or a penalty is
            negative.
    """
    lam, mu = not_negative("off_diagonal", off_diagonal), not_negative("intercept", intercept)
    y, p = array_checks.classes(y, p)
    C = p.shape[1]
    all_there(y, C)
    of_weights, of_bias = lam / (C * (C - 1)), mu / C
    fitted = softmax_regression.fit(
        _log(p), y, diagonal=False, weight_penalty=of_weights, bias_penalty=of_bias
    )
    return DirichletMap(*fitted)


def apply_dirichlet(p: ArrayLike, mapping: DirichletMap) -> np.ndarray:
    """softmax(W^T log p + b), float64 of shape (N, C).

    Args:
        p: class probabilities, shape (N, C); or P(y = 1), shape (N,) or (N, 1).
        mapping: the map of `fit_dirichlet`.

    Raises:
        ValueError: if p are no probabilities, or do not fit the map.
    """
    instance("mapping", mapping, DirichletMap, "what fit_dirichlet gives")
    p = array_checks.probabilities("p", p)
    same_classes("p", p, len(mapping.bias))
    return scipy.special.softmax(_log(p) @ mapping.weights + mapping.bias, axis=1)


def _log(p: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(p, _LEAST))
