"""Probabilities and labels, in arrays and in tensors alike, and the class that is predicted."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfbdl.metrics.array_or_tensor import operations

SUM_TOLERANCE = 1e-3
"""The error of a row's sum of probabilities that is accepted: float16's over many classes."""

ROUNDING = 1e-6
"""The distance outside [0, 1] that is accepted of a probability, as float32 means have it."""


def no_probability(p: Any) -> Any:
    """Where values leave [0, 1] by more than rounding."""
    return (p < -ROUNDING) | (p > 1.0 + ROUNDING)


def no_sum(sums: Any) -> Any:
    """Where the sum over the classes of a row, each in [0, 1], is not one."""
    return abs(sums - 1.0) > SUM_TOLERANCE


def no_class(labels: Any, num_classes: Any) -> Any:
    """Where integers are no labels of so many classes."""
    return (labels < 0) | (labels >= num_classes)


def same_length(name: str, values: Any, other: str, reference: Any) -> None:
    """Raises ValueError unless both have as many examples, as far as that is known."""
    own, wanted = values.shape[0], reference.shape[0]
    if own != wanted and None not in (own, wanted):
        raise ValueError(
            f"{name} has {own} examples and {other} has {wanted}; give both of the same examples"
        )


def labels_fit(name: str, y: Any, other: str, rows: Any, shape: Any) -> None:
    """Raises ValueError unless y has the shape, as far as it is known, that the rows ask for."""
    if not tf.TensorShape(y.shape).is_compatible_with(shape):
        raise ValueError(
            f"{name} has shape {tuple(y.shape)}; {other} of shape {tuple(rows.shape)} needs "
            f"labels of shape {tuple(rows.shape[:-1])}"
        )


def top_class(label: Any, p: Any) -> tuple[Any, Any]:
    """The largest probability, and whether its class is the label; both of shape (N,).

    Where several classes are equally probable, the first is the predicted one.
    """
    ops = operations(p)
    return ops.max(p, axis=-1, initial=0.0), ops.equal(ops.argmax(p, axis=-1), label)
