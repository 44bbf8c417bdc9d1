"""Tables of pandas as arrays. They are known by what they can do: pandas is never imported."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_frame(values: Any) -> bool:
    """Whether it is a table with named columns, such as a `pandas.DataFrame`."""
    return hasattr(values, "columns") and hasattr(values, "to_numpy")


def as_inputs(frame: Any, model: Any) -> Any:
    """A table as a model takes it.

    Returns:
        Columns, in the structure of the model's inputs, if it has several, or a dictionary of them;
        those that it has no input for are left out. Else all columns side by side, shape (N, C).

    Raises:
        ValueError: if there is no column for an input.
    """
    inputs = None if model is None else _inputs_of(model)
    if isinstance(inputs, dict):
        return {name: _column(frame, name) for name in inputs}
    if isinstance(inputs, (list, tuple)) and len(inputs) > 1:
        return type(inputs)(_column(frame, tensor.name) for tensor in inputs)
    return frame.to_numpy()


def _inputs_of(model: Any) -> Any:
    try:
        return model.input
    except (AttributeError, ValueError):  # it is subclassed, or has no input yet
        return None


def _column(frame: Any, name: str) -> np.ndarray:
    if name not in list(frame.columns):
        raise ValueError(
            f"x has no column {name!r}, which the model has an input for; its columns are "
            + ", ".join(map(str, frame.columns))
        )
    return frame[name].to_numpy()
