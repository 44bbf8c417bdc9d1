"""Checks of arguments that several data functions share."""

from typing import Any

import numpy as np

from tfbdl.arguments import positive_integer
from tfbdl.examples import as_array
from tfbdl.memory import require


def number_of(name: str, value: Any, numbers_each: int) -> int:
    """Return how many examples of so many float64 numbers are asked for.

    Args:
        name: What the caller calls the value, for the error message.
        value: An integer of at least 1 (a bool is not one).
        numbers_each: Numbers that an example takes.

    Raises:
        ValueError: If `value` is anything else, or so many do not fit into memory.

    """
    count = positive_integer(name, value)
    require(8 * count * numbers_each, f"{name}={count}", "ask for fewer")
    return count


def unit_interval(name: str, values: Any) -> np.ndarray:
    """Return `values` as a float32 array of the same shape.

    Args:
        name: What the caller calls the values, for the error message.
        values: Numbers in [0, 1], of any shape.

    Raises:
        ValueError: If a value is not a finite real number in [0, 1].

    """
    array = as_array(name, values)
    if not np.all((array >= 0) & (array <= 1)):
        raise ValueError(
            f"{name} ranges from {array.min()} to {array.max()}; "
            "give finite values in [0, 1] (divide 8-bit pixels by 255)"
        )
    return array.astype(np.float32)
