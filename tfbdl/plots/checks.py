"""Checks of the values in a figure; each refusal is one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfbdl.arguments import shown
from tfbdl.examples import as_array, check_finite


def shaped(name: str, values: Any, *shape: int | str) -> np.ndarray:
    """The values as an array of `shape`, in which a word stands for any length but 0.

    Raises:
        ValueError: if they are not, or not finite real numbers.
    """
    array = as_array(name, values)
    fits = array.ndim == len(shape) and all(
        length == wanted if isinstance(wanted, int) else length > 0
        for length, wanted in zip(array.shape, shape, strict=True)
    )
    if not fits:
        wanted = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
        raise ValueError(f"{name} has shape {array.shape}; give shape ({wanted})")
    check_finite(name, array, "float32")
    return array


def curve(name: str, values: Any, length: int | str = "n") -> np.ndarray:
    """One number at each x, from values of shape (n,) or (n, 1), as an array of shape (n,).

    Raises:
        ValueError: as `shaped`.
    """
    array = as_array(name, values)
    return shaped(name, array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array, length)


def pictures(name: str, values: Any, length: int | str = "n") -> np.ndarray:
    """Grey images of shape (n, height, width), or coloured ones, (n, height, width, 3).

    Raises:
        ValueError: if they are none, also if they have 8 bits.
    """
    array = as_array(name, values)
    if array.ndim == 4 and array.shape[-1] == 1:
        array = array[..., 0]
    array = shaped(name, array, length, "height", "width", *[3] * (array.ndim == 4))
    return in_unit_interval(name, array, " (divide 8-bit pixels by 255)")


def in_unit_interval(name: str, array: np.ndarray, hint: str) -> np.ndarray:
    """The array, if its values are between 0 and 1, rounding aside; `hint` ends the message.

    Raises:
        ValueError: if they are not.
    """
    low, high = array.min(), array.max()
    if low < -1e-3 or high > 1 + 1e-3:
        raise ValueError(f"{name} ranges from {low:g} to {high:g}; give values in [0, 1]{hint}")
    return array


def not_empty(name: str, things: Mapping[str, Any]) -> None:
    """Raises ValueError if there is nothing to draw, or it has no names."""
    if not isinstance(things, Mapping):
        kind = type(things).__name__
        raise ValueError(f"{name} is a {kind}; give a dictionary from names to arrays")
    if not len(things):
        raise ValueError(f"{name} is empty; give at least one to draw")
    for key in things:
        if not isinstance(key, str):
            raise ValueError(f"{name} has the name {shown(key)}; give text")
