"""Checks of arrays; each refusal is one line: the argument, the fault, what to do."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfbdl.arguments import shown


def examples(
    name: str, values: Any, dtype: str | None = None, *, wanted: str = "real numbers"
) -> np.ndarray:
    """`values` as an array of examples along the first axis: at least one, of finite numbers.

    Args:
        name: the name of the argument.
        values: the value that was given.
        dtype: the floating type that they are computed in, whose range they must be in.
        wanted: a description of the values to give instead.

    Raises:
        ValueError: if they are not such; the message names the first example that is not.
    """
    array = as_array(name, values, wanted)
    if array.ndim == 0:
        raise ValueError(f"{name} is the number {array:g}; give an array of examples")
    if array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}; give at least one example")
    check_finite(name, array, dtype)
    return array


def check_finite(name: str, array: np.ndarray, dtype: str | None = None) -> None:
    """Raises ValueError for the first example that is not finite, or would not be in `dtype`."""
    if array.dtype.kind != "f":
        return
    if not np.isfinite(array).all():
        where = _first_example(~np.isfinite(array))
        raise ValueError(f"{name} is not finite in example {where}; remove it or fill it in")
    if dtype is not None and array.dtype.itemsize > np.dtype(dtype).itemsize:
        too_large = np.abs(array) > np.finfo(dtype).max
        if too_large.any():
            raise ValueError(
                f"{name} overflows {dtype} in example {_first_example(too_large)}; scale it down"
            )


def as_array(name: str, values: Any, wanted: str = "real numbers") -> np.ndarray:
    """`values` as an array of real numbers.

    Raises:
        ValueError: if they are none; `wanted` says what to give.
    """
    try:
        array = np.asarray(values)
    except Exception as error:  # of symbolic tensors, and of the user's own classes
        if isinstance(values, (list, tuple)) and isinstance(error, ValueError):
            raise ValueError(f"{name} has rows of different lengths; give one array") from None
        raise ValueError(f"{name}={shown(values)} is no array; give {wanted}") from None
    if array.dtype.name == "bfloat16":  # which is no number to NumPy
        return array.astype(np.float32)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} has dtype {array.dtype}; give {wanted}")
    return array


def _first_example(where: np.ndarray) -> int:
    return int(np.argwhere(np.atleast_1d(where))[0][0])
