"""Vector scaling: a factor and a shift for each logit, which calibrate a classifier afterwards."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.special
from numpy.typing import ArrayLike

from tfbdl.arguments import instance
from tfbdl.metrics import array_checks, softmax_regression
from tfbdl.metrics.temperature import matrix, of_positions


class VectorScaling(NamedTuple):
    """The map of `fit_vector_scaling`.

    Attributes:
        scale: w, the factor of each logit, shape (C,).
        bias: b, what is added to each, shape (C,).
    """

    scale: np.ndarray
    bias: np.ndarray


def fit_vector_scaling(y: ArrayLike, logits: ArrayLike) -> VectorScaling:
    """The w and b that minimise the negative log likelihood of softmax(w z + b), elementwise.

    Fit it on held-out examples (Guo et al. 2017, section 4.2). Beside a temperature it mends
    classes that are predicted too often or too seldom, and may change which one is predicted; it
    needs some tens of examples of each class.

    Args:
        y: integer labels, shape (N,), or (N, ...) of positions; each class has to be there.
        logits: z, shape (N, C), or (N, ..., C).

    Raises:
        ValueError: if y are no labels, the logits no finite matrix, a class is missing, or the map
            would tell the classes apart without error, for which w has no optimum.
    """
    y, logits = array_checks.as_examples(y, "logits", logits)
    z = matrix(logits)
    y = array_checks.labels(y, "logits", z)
    all_there(y, z.shape[1])
    scaling = VectorScaling(*softmax_regression.fit(z, y, diagonal=True))
    fitted = apply_vector_scaling(z, scaling)[np.arange(len(y)), y]
    if fitted.min() > 1.0 - 1e-6:
        raise ValueError(
            "logits tell the classes of all examples apart, so that no finite scale is best; give "
            "more held-out examples, some of them misclassified"
        )
    return scaling


def apply_vector_scaling(logits: ArrayLike, scaling: VectorScaling) -> np.ndarray:
    """softmax(w z + b), float64 of the same shape.

    Args:
        logits: z, shape (N, C), or (N, ..., C) of positions.
        scaling: the map of `fit_vector_scaling`.

    Raises:
        ValueError: if the logits are no finite matrix, or do not fit the map.
    """
    instance("scaling", scaling, VectorScaling, "what fit_vector_scaling gives")
    z = of_positions(logits)
    same_classes("logits", z, len(scaling.bias))
    return scipy.special.softmax(z * scaling.scale + scaling.bias, axis=-1)


def all_there(y: np.ndarray, num_classes: int) -> None:
    """Raises ValueError unless each class has a label."""
    missing = np.flatnonzero(np.bincount(y, minlength=num_classes) == 0)
    if missing.size:
        raise ValueError(f"y has no example of class {missing[0]}; give some of each class")


def same_classes(name: str, values: np.ndarray, num_classes: int) -> None:
    """Raises ValueError unless the values have a column for each class of a map."""
    if values.shape[-1] != num_classes:
        raise ValueError(
            f"{name} has {values.shape[-1]} classes, and the map was fitted to {num_classes}; give "
            "as many"
        )
