"""Checks of arguments that several data functions share."""

from typing import Any

import numpy as np


def positive_int(name: str, value: int) -> int:
    """Return `value` as an int.

    Args:
        name: What the caller calls the value, for the error message.
        value: An integer of at least 1 (a bool is not one).

    Raises:
        ValueError: If `value` is anything else.

    """
    is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_integer or value < 1:
        raise ValueError(f"{name}={value!r} must be a positive int")
    return int(value)


def unit_interval(name: str, values: Any) -> np.ndarray:
    """Return `values` as a float32 array of the same shape.

    Args:
        name: What the caller calls the values, for the error message.
        values: Numbers in [0, 1], of any shape.

    Raises:
        ValueError: If a value is not a finite real number in [0, 1].

    """
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} has dtype {array.dtype}; give real numbers in [0, 1]")
    if not np.all((array >= 0) & (array <= 1)):
        raise ValueError(
            f"{name} ranges from {array.min()} to {array.max()}; "
            "give finite values in [0, 1] (divide 8-bit pixels by 255)"
        )
    return array.astype(np.float32)
