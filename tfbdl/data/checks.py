"""Checks of arguments that several data functions share."""

from typing import Any

import numpy as np

from tfbdl.arguments import positive_integer
from tfbdl.examples import as_array
from tfbdl.memory import require


def number_of(name: str, value: Any, numbers_each: int) -> int:
    """Returns how many examples of so many float64 numbers are asked for.

    Args:
        name: what the caller calls the value, for the error message.
        value: an integer of at least 1 (a bool is not one).
        numbers_each: numbers that an example takes.

    Raises:
        ValueError: if `value` is anything else, or so many do not fit into memory.

    """
    count = positive_integer(name, value)
    require(8 * count * numbers_each, f"{name}={count}", "ask for fewer")
    return count


def unit_interval(name: str, values: Any) -> np.ndarray:
    """Returns `values` as a float32 array of the same shape.

    Args:
        name: what the caller calls the values, for the error message.
        values: numbers in [0, 1], of any shape.

    Raises:
        ValueError: if a value is not a finite real number in [0, 1].

    """
    array = as_array(name, values)
    if not np.all((array >= 0) & (array <= 1)):
        raise ValueError(
            f"{name} ranges from {array.min()} to {array.max()}; "
            "give finite values in [0, 1] (divide 8-bit pixels by 255)"
        )
    return array.astype(np.float32)
