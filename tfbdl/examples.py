"""Arrays that a user passes; each refusal is one line: the argument, what is wrong, what to do."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfbdl.arguments import shown


def examples(name: str, values: Any, dtype: str | None = None) -> np.ndarray:
    """`values` as an array of examples along the first axis: at least one, of finite numbers.

    Args:
        name: of the argument.
        values: what was given.
        dtype: the floating type that they are computed in, whose range they must be in.

    Raises:
        ValueError: if they are not such; the message names the first example that is not.
    """
    array = as_array(name, values)
    if array.ndim == 0:
        raise ValueError(f"{name} is the number {array:g}; give an array of examples")
    if array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}; give at least one example")
    if array.dtype.kind != "f":
        return array
    if not np.isfinite(array).all():
        where = _first_example(~np.isfinite(array))
        raise ValueError(f"{name} is not finite in example {where}; remove it or fill it in")
    if dtype is not None and array.dtype.itemsize > np.dtype(dtype).itemsize:
        too_large = np.abs(array) > np.finfo(dtype).max
        if too_large.any():
            raise ValueError(
                f"{name} overflows {dtype} in example {_first_example(too_large)}; scale it down"
            )
    return array


def as_array(name: str, values: Any) -> np.ndarray:
    """`values` as an array of numbers.

    Raises:
        ValueError: if they are none.
    """
    try:
        array = np.asarray(values)
    except Exception:  # rows of different lengths, and symbolic tensors of any kind
        raise ValueError(
            f"{name} cannot be made one array; give numbers, with rows of one length"
        ) from None
    if array.dtype.kind not in "fiub":
        what = "" if array.ndim else f"={shown(values)}"
        raise ValueError(f"{name}{what} has dtype {array.dtype}; give an array of numbers")
    return array


def _first_example(where: np.ndarray) -> int:
    return int(np.argwhere(where)[0][0])
