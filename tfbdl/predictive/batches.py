"""Inputs in batches of one shape, so that nothing is compiled twice."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from rich.console import Console
from rich.progress import track

from tfbdl.arguments import positive_integer

VALUES_PER_BATCH = 1_000_000


def batches(x: Any, batch_size: int | None, verbose: int) -> Iterator[tuple[Any, int]]:
    """Batches on the device, and how many of their examples count.

    The last batch of arrays is filled up with copies of its first example. A progress bar shows
    in a terminal where there are several.

    Args:
        x: an array, a structure of arrays, or a `tf.data.Dataset` of batches.
        batch_size: None for as many as hold a million numbers, but 32 to 1,000.
        verbose: 0 for no bar.

    Raises:
        ValueError: if x is empty, not finite, of unequal lengths, or `batch_size` out of range.
    """
    if isinstance(x, tf.data.Dataset):
        if batch_size is not None:
            raise ValueError(f"batch_size={batch_size} is for arrays; batch the data set itself")
        length = int(x.cardinality())
        yield from _shown(_of_dataset(x), None if length < 0 else length, verbose)
        return
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
    yield from _shown(_of_arrays(x, num, size), -(-num // size), verbose)


def _of_arrays(x: Any, num: int, size: int) -> Iterator[tuple[Any, int]]:
    for start in range(0, num, size):
        stop = min(start + size, num)
        rows = np.r_[start:stop, np.full(size - (stop - start), start)]
        yield keras.tree.map_structure(lambda a, r=rows: tf.constant(a[r]), x), stop - start


def _of_dataset(dataset: tf.data.Dataset) -> Iterator[tuple[Any, int]]:
    for element in dataset:
        batch = keras.utils.unpack_x_y_sample_weight(element)[0]
        yield batch, int(keras.tree.flatten(batch)[0].shape[0])


def _shown(parts: Iterator[Any], total: int | None, verbose: int) -> Iterator[Any]:
    console = Console(file=sys.stderr)
    if not (verbose and console.is_terminal) or total == 1:
        return parts
    return iter(track(parts, "predict", total, console=console, transient=True))


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
