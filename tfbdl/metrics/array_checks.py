"""Checks of the arrays given to metrics; each refusal is one line."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tfbdl.arguments import option, text
from tfbdl.examples import as_array
from tfbdl.metrics import classifier


def of_keras(name: str | None, dtype: str) -> dict[str, Any]:
    """The arguments that every metric of Keras has.

    Raises:
        ValueError: if `name` is no text, or `dtype` no floating type.
    """
    if name is not None:
        text("name", name)
    return {
        "name": name,
        "dtype": option("dtype", dtype, ("bfloat16", "float16", "float32", "float64")),
    }


def real(name: str, values: ArrayLike) -> np.ndarray:
    """The values in float64.

    Raises:
        ValueError: if they are empty, no real numbers, or not finite.
    """
    array = as_array(name, values)
    if array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}, which is empty; give some examples")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has {first(array, ~np.isfinite(array))}; leave out NaN and Inf")
    return array


def vector(name: str, values: ArrayLike) -> np.ndarray:
    """One real number an example, float64 of shape (N,).

    Raises:
        ValueError: if the values are not that.
    """
    array = real(name, values)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; give one number an example, shape (N,)")
    return array


def alike(**arrays: ArrayLike) -> list[np.ndarray]:
    """The arrays in float64, all of one shape.

    Raises:
        ValueError: if an array is not real and finite, or their shapes differ.
    """
    checked = {name: real(name, values) for name, values in arrays.items()}
    (name, reference), *others = checked.items()
    for other, array in others:
        if array.shape != reference.shape:
            raise ValueError(
                f"{other} has shape {array.shape} and {name} has shape {reference.shape}; "
                "give both the same shape"
            )
    return list(checked.values())


def with_samples(y: ArrayLike, samples: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Targets of any shape, and samples of each, shape (S, *y.shape), in float64.

    Raises:
        ValueError: if an array is not real and finite, or the shapes do not fit.
    """
    y, samples = real("y", y), real("samples", samples)
    if samples.shape[1:] != y.shape or samples.ndim == y.ndim:
        raise ValueError(
            f"samples has shape {samples.shape}; y of shape {y.shape} needs (S, *y.shape)"
        )
    return y, samples


def probabilities(name: str, values: ArrayLike) -> np.ndarray:
    """Class probabilities, float64 of shape (N, C).

    Shape (N,) or (N, 1) is P(y = 1) of two classes and becomes (N, 2). Rows whose sum misses 1 by
    up to 1e-3 are taken as they are; values outside [0, 1] by up to 1e-6 are set to 0 or 1.

    Raises:
        ValueError: if the values are no probabilities, with a hint if they look like logits.
    """
    p = real(name, values)
    if p.ndim not in (1, 2):
        raise ValueError(f"{name} has shape {p.shape}; give probabilities of shape (N, C)")
    outside = classifier.no_probability(p)
    if outside.any():
        raise ValueError(
            f"{name} has {first(p, outside)}, outside [0, 1]: the rows look like logits; "
            "apply softmax first"
        )
    p = p.clip(0.0, 1.0)
    if p.ndim == 1 or p.shape[1] == 1:
        return np.stack([1.0 - p.ravel(), p.ravel()], axis=1)
    sums = p.sum(axis=1)
    wrong = classifier.no_sum(sums)
    if wrong.any():
        raise ValueError(
            f"{name} has a row with the sum {first(sums, wrong)}; "
            "the probabilities of an example must sum to one"
        )
    return p


def classes(y: ArrayLike, p: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Labels of shape (N,) and the `probabilities` of their classes, shape (N, C).

    Positions, with labels of shape (N, ...) and p of (N, ..., C), are examples.

    Raises:
        ValueError: if either is not that, or their lengths differ.
    """
    y, p = as_examples(y, "p", p)
    checked = probabilities("p", p)
    return labels(y, "p", checked), checked


def class_events(y: ArrayLike, p: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Forecast and outcome of each class, an event, shape (N, C): p, and whether it is the label.

    Raises:
        ValueError: as `classes`.
    """
    y, p = classes(y, p)
    return p, y[:, np.newaxis] == np.arange(p.shape[1])


def as_examples(y: ArrayLike, name: str, rows: ArrayLike) -> tuple[Any, Any]:
    """Positions of `rows`, shape (N, ..., C), as (M, C), and their labels as (M,).

    What has no positions between the first axis and the last is given back as it is.

    Raises:
        ValueError: if the labels have not the shape of the positions.
    """
    array = as_array(name, rows)
    if array.ndim <= 2:
        return y, rows
    labels = as_array("y", y)
    classifier.labels_fit("y", labels, name, array, array.shape[:-1])
    return labels.ravel(), array.reshape(-1, array.shape[-1])


def labels(y: ArrayLike, name: str, rows: np.ndarray) -> np.ndarray:
    """Integer labels of shape (N,), one for each of the `rows`, shape (N, C), of argument `name`.

    Raises:
        ValueError: if y is not that.
    """
    vector("y", y)
    array = np.asarray(y)
    if array.dtype.kind not in "iub":
        raise ValueError(f"y has dtype {array.dtype}; give integer labels")
    classifier.same_length("y", array, name, rows)
    num_classes = rows.shape[1]
    wrong = classifier.no_class(array, num_classes)
    if wrong.any():
        raise ValueError(
            f"y has the label {first(array, wrong)}; {name} has {num_classes} classes, "
            f"so give labels from 0 to {num_classes - 1}"
        )
    return array.astype(np.int64)


def first(array: np.ndarray, where: np.ndarray) -> str:
    """The first value of a one- or two-dimensional array at which `where` is true, in words."""
    index = tuple(np.argwhere(where)[0].tolist())
    return f"{array[index]:g} at index {index[0] if len(index) == 1 else index}"
