"""What the training loop refuses, each with one line that says what to do."""

from __future__ import annotations

import numbers

import keras
import numpy as np


def check(
    model: keras.Model,
    x: np.ndarray,
    y: np.ndarray | None,
    *,
    epochs: int,
    batch_size: int,
    seed: int,
) -> None:
    """Raises ValueError unless this model can be trained on these data as asked."""
    if not model.compiled:
        raise ValueError(f"model={model.name} is not compiled; call model.compile(optimizer, loss)")
    check_positive(epochs=epochs, batch_size=batch_size)
    if not _is_integer(seed):
        raise ValueError(f"seed={seed!r} must be an integer")
    check_arrays(x, y)
    if hasattr(model, "check_data"):
        model.check_data(x)


def check_positive(**arguments: int) -> None:
    """Raises ValueError unless each argument is a positive integer."""
    for name, value in arguments.items():
        if not _is_integer(value) or value <= 0:
            raise ValueError(f"{name}={value!r} must be a positive integer")


def check_arrays(x: np.ndarray, y: np.ndarray | None) -> None:
    """Raises ValueError unless x, y are numbers, non-empty, of one length, and finite."""
    for name, array in (("x", x), ("y", y)):
        if array is not None and array.dtype.kind not in "fiub":
            raise ValueError(f"{name} has dtype {array.dtype}; give an array of numbers")
    if x.ndim < 1 or len(x) == 0:
        raise ValueError(f"x has shape {x.shape}; give at least one example")
    if y is not None and (y.ndim < 1 or len(y) != len(x)):
        raise ValueError(f"y has shape {y.shape} but x has {len(x)} examples; give one y for each")
    for name, array in (("x", x), ("y", y)):
        if array is not None and array.dtype.kind == "f" and not np.isfinite(array).all():
            where = int(np.argwhere(~np.isfinite(array))[0][0])
            raise ValueError(f"{name} is not finite in example {where}; remove it or fill it in")


def check_labels(model: keras.Model, x: np.ndarray, y: np.ndarray | None) -> None:
    """Raises ValueError where a sparse categorical loss would meet a label it has no class for."""
    loss = None if model.loss is None or isinstance(model.loss, (list, dict)) else model.loss
    loss = None if loss is None else keras.losses.get(loss)
    sparse = keras.losses.SparseCategoricalCrossentropy
    if y is None or not (
        isinstance(loss, sparse) or loss is keras.losses.sparse_categorical_crossentropy
    ):
        return
    if y.dtype.kind == "f" and not np.array_equal(y, np.floor(y)):
        raise ValueError(f"y has values that are no class labels 0, 1, ... (dtype {y.dtype})")
    labels = y[y != getattr(loss, "ignore_class", None)]
    classes = model(x[:1], training=False).shape[-1]
    if labels.size and (labels.min() < 0 or labels.max() >= classes):
        raise ValueError(
            f"y has labels from {labels.min()} to {labels.max()}; the model's {classes} classes "
            f"are 0 to {classes - 1}"
        )


def _is_integer(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
