"""Inputs in batches of one shape, so that nothing is compiled twice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import positive_integer

VALUES_PER_BATCH = 1_000_000


class Batches(NamedTuple):
    """Batches on the device with the number of their examples that count; how many, if known."""

    parts: Iterator[tuple[Any, int]]
    number: int | None


def batches(x: Any, batch_size: int | None) -> Batches:
    """The batches of x; the last one of arrays is filled up with copies of its first example.

    Args:
        x: an array, a structure of arrays, or a `tf.data.Dataset` of batches.
        batch_size: None for as many as hold a million numbers, but 32 to 1,000.

    Raises:
        ValueError: if x is empty, not finite, of unequal lengths, or `batch_size` out of range.
    """
    if isinstance(x, tf.data.Dataset):
        if batch_size is not None:
            raise ValueError(f"batch_size={batch_size} is for arrays; batch the data set itself")
        number = int(x.cardinality())
        return Batches(_of_dataset(x), None if number < 0 else number)
    x = keras.tree.map_structure(_checked, x)
    leaves = keras.tree.flatten(x)
    lengths = {len(leaf) for leaf in leaves}
    if len(lengths) != 1:
        raise ValueError(f"x has arrays of {sorted(lengths)} examples; give equally many of each")
    num = lengths.pop()
    if batch_size is None:
        per_example = sum(math.prod(leaf.shape[1:]) for leaf in leaves)
        batch_size = min(max(VALUES_PER_BATCH // max(per_example, 1), 32), 1000)
    size = min(positive_integer("batch_size", batch_size), num)
    return Batches(_of_arrays(x, num, size), -(-num // size))


def _of_arrays(x: Any, num: int, size: int) -> Iterator[tuple[Any, int]]:
    for start in range(0, num, size):
        stop = min(start + size, num)
        rows = np.r_[start:stop, np.full(size - (stop - start), start)]
        yield keras.tree.map_structure(lambda a, r=rows: tf.constant(a[r]), x), stop - start


def _of_dataset(dataset: tf.data.Dataset) -> Iterator[tuple[Any, int]]:
    for element in dataset:
        batch = keras.utils.unpack_x_y_sample_weight(element)[0]
        yield batch, int(keras.tree.flatten(batch)[0].shape[0])


def _checked(array: Any) -> np.ndarray:
    array = np.asarray(array)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"x has dtype {array.dtype}; give an array of numbers")
    if array.ndim == 0 or len(array) == 0:
        raise ValueError(f"x has shape {array.shape}; give at least one example")
    if array.dtype.kind != "f":
        return array
    if not np.isfinite(array).all():
        where = int(np.argwhere(~np.isfinite(array))[0][0])
        raise ValueError(f"x is not finite in example {where}; remove it or fill it in")
    return array.astype(keras.config.floatx(), copy=False)
