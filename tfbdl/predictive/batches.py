"""Inputs in batches of few sizes, so that little is compiled."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import positive_integer

VALUES_PER_BATCH = 1_000_000
unpack = keras.utils.unpack_x_y_sample_weight


class Batches(NamedTuple):
    """Batches on the device with the number of their examples that count; how many, if known."""

    parts: Iterator[tuple[Any, int]]
    number: int | None


def batches(x: Any, batch_size: int | None) -> Batches:
    """The batches of x; one that is not full is filled up with copies of its first example.

    Args:
        x: an array, a structure of arrays, or a `tf.data.Dataset` of batches.
        batch_size: None for as many as hold a million numbers, but 32 to 1,000.

    Raises:
        ValueError: if x is empty, not finite, of unequal lengths, or `batch_size` out of range.
    """
    if isinstance(x, tf.data.Dataset):
        return _of_dataset(x, batch_size, lambda element: unpack(element)[0])
    return _of_arrays(_checked("x", x), batch_size)


def labelled_batches(x: Any, y: Any, batch_size: int | None) -> Batches:
    """The batches of (x, y), as `batches` has them; or of a data set of both, where y is None.

    Raises:
        ValueError: as `batches`, and if targets are missing or given twice.
    """
    if isinstance(x, tf.data.Dataset):
        if y is not None:
            raise ValueError(
                "y is given, but x is a data set; let it hold x and y, and leave y out"
            )
        if not (isinstance(x.element_spec, tuple) and len(x.element_spec) > 1):
            raise ValueError("x is a data set without targets; let its batches be (x, y)")
        return _of_dataset(x, batch_size, lambda element: unpack(element)[:2])
    x, y = _checked("x", x), _array("y", np.asarray(y))
    num = len(keras.tree.flatten(x)[0])
    if len(y) != num:
        raise ValueError(f"y has {len(y)} examples and x has {num}; give one y for each")
    return _of_arrays((x, y), batch_size)


def _of_arrays(x: Any, batch_size: int | None) -> Batches:
    leaves = keras.tree.flatten(x)
    lengths = {len(leaf) for leaf in leaves}
    if len(lengths) != 1:
        raise ValueError(f"x has arrays of {sorted(lengths)} examples; give equally many of each")
    num = lengths.pop()
    if batch_size is None:
        per_example = sum(math.prod(leaf.shape[1:]) for leaf in leaves)
        batch_size = min(max(VALUES_PER_BATCH // max(per_example, 1), 32), 1000)
    size = positive_integer("batch_size", batch_size)
    return Batches(_slices(x, num, size), -(-num // size))


def padded_size(size: int) -> int:
    """The least power of two that is no less: so many sizes of batches are ever computed with.

    A service that is asked for any number of examples then compiles at most 11 programs for batches
    of up to 1,000, and computes at most twice what it is asked for.
    """
    return 1 << (size - 1).bit_length()


def _slices(x: Any, num: int, size: int) -> Iterator[tuple[Any, int]]:
    for start in range(0, num, size):
        stop = min(start + size, num)
        full = size if stop - start == size else min(padded_size(stop - start), size)
        rows = np.r_[start:stop, np.full(full - (stop - start), start)]
        yield keras.tree.map_structure(lambda a, r=rows: tf.constant(a[r]), x), stop - start


def _of_dataset(
    dataset: tf.data.Dataset, batch_size: int | None, part: Callable[[Any], Any]
) -> Batches:
    if batch_size is not None:
        raise ValueError(f"batch_size={batch_size} is for arrays; batch the data set itself")
    number = int(dataset.cardinality())
    return Batches(_elements(dataset, part), None if number < 0 else number)


def _elements(dataset: tf.data.Dataset, part: Callable[[Any], Any]) -> Iterator[tuple[Any, int]]:
    largest = 0
    for number, element in enumerate(dataset):
        batch = part(element)
        for leaf in keras.tree.flatten(batch):
            known = isinstance(leaf, tf.Tensor) and leaf.dtype.is_floating
            if known and not tf.reduce_all(tf.math.is_finite(leaf)):
                raise ValueError(f"x is not finite in batch {number}; remove it or fill it in")
        size = int(keras.tree.flatten(batch)[0].shape[0])
        largest = max(largest, size)
        full = min(padded_size(size), largest)
        if full > size:
            rows = np.r_[:size, np.zeros(full - size, int)]
            batch = keras.tree.map_structure(lambda a, r=rows: tf.gather(a, r), batch)
        yield batch, size


def _checked(name: str, values: Any) -> Any:
    """The arrays of a structure as NumPy arrays, those of real numbers in Keras' precision."""
    if not keras.tree.flatten(values):
        raise ValueError(f"{name} holds no array; give at least one")
    return keras.tree.map_structure(lambda array: _array(name, np.asarray(array)), values)


def _array(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} has dtype {array.dtype}; give numbers, or a tf.data.Dataset as x")
    if array.ndim == 0:
        raise ValueError(f"{name} is the number {array:g}; give an array of examples")
    if len(array) == 0:
        raise ValueError(f"{name} has shape {array.shape}; give at least one example")
    if array.dtype.kind != "f":
        return array
    if not np.isfinite(array).all():
        where = int(np.argwhere(~np.isfinite(array))[0][0])
        raise ValueError(f"{name} is not finite in example {where}; remove it or fill it in")
    return array.astype(keras.config.floatx(), copy=False)
