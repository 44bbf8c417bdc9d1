"""Examples, checked, and in batches of few sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import positive_integer
from tfbdl.sources import Element, Source

VALUES_PER_BATCH = 1_000_000


class PaddedBatch(NamedTuple):
    """Examples on the device, filled up with copies of the first one.

    x: the inputs.
    y: the targets; None where there are none.
    mask: 1 for examples that count, which come first, else 0.
    weights: how much each counts in sums over examples; 0 where the mask is.
    """

    x: Any
    y: Any
    mask: tf.Tensor
    weights: tf.Tensor

    @property
    def size(self) -> int:
        """The number of examples that count."""
        return int(np.count_nonzero(self.mask))


class Batches(NamedTuple):
    """Batches, and how many they are, where that is known."""

    parts: Iterator[PaddedBatch]
    number: int | None


def batches(
    source: Source,
    size: int | None,
    dtype: tf.DType,
    *,
    computed_in: tf.DType | None = None,
    one_shape: bool = False,
    needs_y: bool = True,
) -> Batches:
    """The examples in batches of at most `size`.

    Args:
        source: the examples.
        size: the most examples in a batch; None for as many as hold a million numbers, but 32 to
            1,000, and for those of a data set.
        dtype: the type of floating arrays.
        computed_in: the type whose range the data must be in; by default `dtype`.
        one_shape: whether batches that are not full are filled up to the size of the first, which
            is best where compiling is dear; else to a power of two.
        needs_y: whether targets and weights of a data set are taken, or left out.

    Raises:
        ValueError: if data are empty, of unequal lengths, not finite or out of range, or `size` is
            not positive.
    """
    parts = source.elements(computed_in or dtype, needs_y=needs_y)
    if not source.is_arrays:
        number = None if size is not None else source.number
        return Batches(_filled(parts, size, dtype, one_shape), number)
    data = next(parts)
    if size is None:
        values = sum(math.prod(leaf.shape[1:]) for leaf in keras.tree.flatten(data.x))
        size = min(max(VALUES_PER_BATCH // max(values, 1), 32), 1000)
    size = positive_integer("batch_size", size)
    return Batches(_filled(iter([data]), size, dtype, one_shape), -(-data.size // size))


def padded_size(size: int) -> int:
    """The least power of two that is at least `size`, so that few sizes are compiled.

    A service that is asked for any number of examples then compiles at most 11 programs for batches
    of up to 1,000, and computes at most twice what it is asked for.
    """
    return 1 << (size - 1).bit_length()


def _filled(
    parts: Iterator[Element], size: int | None, dtype: tf.DType, one_shape: bool
) -> Iterator[PaddedBatch]:
    largest = 0
    for data in parts:
        num = data.size
        most = num if size is None else min(size, largest) if one_shape and largest else size
        for start in range(0, num, most):
            count = min(most, num - start)
            largest = max(largest, count)
            limit = largest if size is None else size
            full = largest if one_shape else min(padded_size(count), limit)
            rows = np.r_[start : start + count, np.full(full - count, start)]
            x, y = keras.tree.map_structure(
                lambda leaf, r=rows: _rows(leaf, r, dtype), data[:2], none_is_leaf=False
            )
            counts = np.arange(full) < count
            weights = counts if data.weights is None else counts * data.weights[rows]
            yield PaddedBatch(x, y, tf.constant(counts, dtype), tf.constant(weights, dtype))
    if not largest:
        raise ValueError("x has no batches; give at least one example")


def _rows(leaf: Any, rows: np.ndarray, dtype: tf.DType) -> tf.Tensor:
    if not isinstance(leaf, np.ndarray):
        return tf.gather(leaf, rows)
    return tf.constant(leaf[rows], dtype if leaf.dtype.kind == "f" else None)
