"""Batches whose examples are of one length, or of several, as sequences are."""

from __future__ import annotations

from typing import Any

import keras


def shapes_of(arrays: Any) -> list[tuple[int, ...]]:
    """The shapes of a structure of arrays beyond the axis of the examples."""
    return [tuple(array.shape[1:]) for array in keras.tree.flatten(arrays)]


def check_one_length(what: str, first: Any, other: Any) -> None:
    """Raises ValueError unless the arrays of two batches can stand in one array."""
    for one, another in zip(shapes_of(first), shapes_of(other), strict=True):
        if one != another:
            shapes = " and ".join(str((*"N", *shape)).replace("'", "") for shape in (one, another))
            raise ValueError(
                f"x has batches with {what} of shapes {shapes}; ask for each length alone, or fill "
                "all up to one"
            )
