"""Batches of bounded size from arrays or data sets, of one shape as far as they come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbdl.examples import examples

NUMBERS = 50_000_000
"""Numbers that a batch may take in the making: 200 MB in float32."""


class Batch(NamedTuple):
    """Inputs, targets (None where there are none), and 1 for examples that count, else 0."""

    x: Any
    y: Any
    mask: tf.Tensor


def batches(
    x: Any, y: Any, size: int, dtype: tf.DType, computed_in: tf.DType | None = None
) -> Iterator[Batch]:
    """The data in batches of at most `size`; short ones are filled up with their first example.

    Args:
        x: arrays, shape (N, ...), or a `tf.data.Dataset` of batches x or (x, y).
        y: targets, shape (N, ...), or None.
        size: examples in a batch.
        dtype: the type of what is floating.
        computed_in: the type whose range the data must be in; by default `dtype`.

    Raises:
        ValueError: if there is no example, lengths differ, or data are not finite or out of range.
    """
    empty = True
    for data in elements(x, y, computed_in or dtype):
        num = len(keras.tree.flatten(data[0])[0])
        size = min(size, num) if empty else size
        empty = False
        for start in range(0, num, size):
            stop = min(start + size, num)
            chosen = np.r_[start:stop, np.full(size - (stop - start), start)]
            inputs, targets = keras.tree.map_structure(
                lambda a, c=chosen: _tensor(a[c], dtype), data, none_is_leaf=False
            )
            mask = tf.constant(np.arange(size) < stop - start, dtype)
            yield Batch(inputs, targets, mask)
    if empty:
        raise ValueError("x has no batches; give at least one example")


def elements(x: Any, y: Any, dtype: tf.DType | None = None) -> Iterator[tuple[Any, Any]]:
    """The batches of a data set, or all of the arrays, as NumPy arrays (x, y).

    Raises:
        ValueError: as `batches`; where a `dtype` is named, also for what it does not hold.
    """
    if not isinstance(x, tf.data.Dataset):
        yield _checked(x, y, dtype)
        return
    if y is not None:
        raise ValueError("y is given, but x is a data set; let it hold x and y, and leave y out")
    for element in x:
        inputs, targets, weights = keras.utils.unpack_x_y_sample_weight(element)
        if weights is not None:
            raise ValueError("x holds sample weights, which have no likelihood; leave them out")
        yield _checked(inputs, targets, dtype)


def whole(x: Any, y: Any, dtype: tf.DType) -> tuple[Any, np.ndarray]:
    """All examples of arrays, or of a data set, as NumPy arrays (x, y).

    Raises:
        ValueError: as `elements`, or if there are no targets or examples.
    """
    parts = list(elements(x, y, dtype))
    if not parts:
        raise ValueError("x has no batches; give at least one example")
    xs, ys = zip(*parts, strict=True)
    if ys[0] is None:
        raise ValueError("y=None: give targets, or a data set of batches (x, y)")
    return keras.tree.map_structure(lambda *parts: np.concatenate(parts), *xs), np.concatenate(ys)


def _checked(x: Any, y: Any, dtype: tf.DType | None) -> tuple[Any, Any]:
    name = None if dtype is None else dtype.name
    if not keras.tree.flatten(x):
        raise ValueError("x holds no array; give at least one")
    x = keras.tree.map_structure(lambda leaf: examples("x", leaf, name), x)
    y = None if y is None else examples("y", y, name)
    lengths = {len(leaf) for leaf in keras.tree.flatten(x)}
    if len(lengths) != 1:
        raise ValueError(f"x has arrays of {sorted(lengths)} examples; give equally many of each")
    if y is not None and {len(y)} != lengths:
        raise ValueError(f"y has {len(y)} targets for the {lengths.pop()} examples of x")
    return x, y


def _tensor(array: np.ndarray, dtype: tf.DType) -> tf.Tensor:
    return tf.constant(array, dtype if array.dtype.kind == "f" else None)
