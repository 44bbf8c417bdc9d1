"""Checks of arrays; each refusal is one line: the argument, the fault, what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tfbdl.arguments import shown


def examples(
    name: str,
    values: Any,
    dtype: str | None = None,
    *,
    text: bool = False,
    wanted: str = "real numbers",
) -> np.ndarray:
    """`values` as an array of examples along the first axis: at least one, of finite numbers.

    Args:
        name: the name of the argument.
        values: the value that was given.
        dtype: the floating type that they are computed in, whose range they must be in.
        text: whether they may be strings instead, as look-ups take them.
        wanted: a description of the values to give instead.

    Raises:
        ValueError: if they are not such; the message names the first example that is not.
    """
    array = as_array(name, values, wanted, text=text)
    if array.ndim == 0:
        raise ValueError(f"{name}={shown(array.item())} is one value; give an array of examples")
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


def as_array(
    name: str, values: Any, wanted: str = "real numbers", *, text: bool = False
) -> np.ndarray:
    """`values` as an array of real numbers, or of strings where there may be `text`.

    Raises:
        ValueError: if they are none; `wanted` says what to give.
    """
    try:
        array = np.asarray(values)
    except Exception as error:  # symbolic tensors and classes of the user's own may raise anything
        if isinstance(values, (list, tuple)) and isinstance(error, ValueError):
            raise ValueError(f"{name} has rows of different lengths; give one array") from None
        raise ValueError(f"{name}={shown(values)} is no array; give {wanted}") from None
    if array.dtype.name == "bfloat16":  # NumPy does not take it for a number
        return array.astype(np.float32)
    if text and array.dtype.kind in "US" and isinstance(values, (list, tuple)):
        array = np.asarray(values, object)  # NumPy makes text of numbers among it
    if array.dtype.kind not in "fiub" and not (text and _is_text(array)):
        raise ValueError(f"{name}{_of_no_number(array)}; give {wanted}")
    return array


def structure_of_arrays(name: str, values: Any, *, text: bool = True) -> Any:
    """`values` as an array, or a structure of arrays, as `map_arrays` takes it.

    Raises:
        ValueError: as `as_array`, or if there is none.
    """
    wanted = "numbers or strings" if text else "real numbers"
    made = map_named_arrays(
        lambda name, values: as_array(name, values, wanted, text=text), name, values
    )
    if isinstance(made, (dict, list, tuple)) and not made:
        raise ValueError(f"{name} holds no array; give at least one")
    return made


def map_arrays(function: Callable[[Any], Any], values: Any) -> Any:
    """`function` of an array, or of each in a structure: a dictionary, list or tuple of arrays.

    A list of numbers or strings, or of lists of them, is one array.
    """
    return map_named_arrays(lambda _, array: function(array), "", values)


def map_named_arrays(function: Callable[[str, Any], Any], name: str, values: Any) -> Any:
    """`map_arrays` for a function of each array's name, such as `x['price']`, and the array."""
    if isinstance(values, Mapping):
        items = values.items()
        return {k: map_named_arrays(function, f"{name}[{k!r}]", part) for k, part in items}
    if isinstance(values, (list, tuple)) and any(map(_is_array, values)):
        fields = getattr(values, "_fields", None)
        within = fields if fields else range(len(values))
        names = [f"{name}.{part}" if fields else f"{name}[{part}]" for part in within]
        parts = [map_named_arrays(function, *named) for named in zip(names, values, strict=True)]
        return type(values)(*parts) if fields else type(values)(parts)
    return function(name, values)


def _is_text(array: np.ndarray) -> bool:
    """Whether its elements are strings: Unicode or bytes, also in an array of objects."""
    if array.dtype.kind != "O":
        return array.dtype.kind in "US"
    return array.size > 0 and all(isinstance(value, (str, bytes)) for value in array.flat)


def _of_no_number(array: np.ndarray) -> str:
    """What an array holds that has neither numbers alone nor text alone, in words."""
    if array.dtype.kind != "O" or array.size == 0:
        return f" has dtype {array.dtype}"
    if array.ndim == 0:
        return f"={shown(array.item())} is no array"
    flat = array.reshape(-1)
    places = [i for i, value in enumerate(flat) if not isinstance(value, (str, bytes))]
    where = next((i for i in places if _is_missing(flat[i])), places[0] if places else 0)
    return f" holds {shown(flat[where])} in example {where * len(array) // len(flat)}"


def _is_missing(value: Any) -> bool:
    """Whether it stands for no value: None, NaN, or NA and NaT of pandas."""
    is_nan = isinstance(value, (float, np.floating, np.datetime64)) and np.isnan(value)
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def _is_array(value: Any) -> bool:
    return isinstance(value, Mapping) or hasattr(value, "shape")


def _first_example(where: np.ndarray) -> int:
    return int(np.argwhere(np.atleast_1d(where))[0][0])
