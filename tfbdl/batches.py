"""Examples, checked, and in batches of few sizes: from arrays, structures of arrays, data sets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import positive_integer
from tfbdl.examples import examples, map_arrays

VALUES_PER_BATCH = 1_000_000


class Batch(NamedTuple):
    """Examples on the device, filled up with copies of the first one.

    x: the inputs.
    y: the targets; None where there are none.
    mask: 1 for examples that count, which come first, else 0.
    """

    x: Any
    y: Any
    mask: tf.Tensor

    @property
    def size(self) -> int:
        """The number of examples that count."""
        return int(np.count_nonzero(self.mask))


class Batches(NamedTuple):
    """Batches, and how many they are, where that is known."""

    parts: Iterator[Batch]
    number: int | None


def batches(
    x: Any,
    y: Any,
    size: int | None,
    dtype: tf.DType,
    *,
    computed_in: tf.DType | None = None,
    one_shape: bool = False,
    needs_y: bool = True,
) -> Batches:
    """The examples in batches of at most `size`.

    Args:
        x: an array, a structure of arrays, or a `tf.data.Dataset` of batches x or (x, y).
        y: the targets, an array or a structure of arrays, or None.
        size: the most examples in a batch; None for as many as hold a million numbers, but 32 to
            1,000, and for those of a data set.
        dtype: the type of floating arrays.
        computed_in: the type whose range the data must be in; by default `dtype`.
        one_shape: whether batches that are not full are filled up to the size of the first, which
            is best where compiling is dear; else to a power of two.
        needs_y: whether targets of a data set are taken, or left out.

    Raises:
        ValueError: if data are empty, of unequal lengths, not finite or out of range, or `size` is
            not positive.
    """
    parts = elements(x, y, computed_in or dtype, needs_y=needs_y)
    if isinstance(x, tf.data.Dataset):
        number = -1 if size is not None else int(x.cardinality())
        return Batches(_filled(parts, size, dtype, one_shape), None if number < 0 else number)
    data = next(parts)
    num = num_examples(data)
    if size is None:
        values = sum(math.prod(leaf.shape[1:]) for leaf in keras.tree.flatten(data[0]))
        size = min(max(VALUES_PER_BATCH // max(values, 1), 32), 1000)
    size = positive_integer("batch_size", size)
    return Batches(_filled(iter([data]), size, dtype, one_shape), -(-num // size))


def elements(
    x: Any, y: Any, dtype: tf.DType | None = None, *, needs_y: bool = True
) -> Iterator[tuple[Any, Any]]:
    """The batches (x, y) of a data set, or all of the arrays: as NumPy arrays, if dense.

    Raises:
        ValueError: as `batches`; where a `dtype` is named, also for numbers that it does not hold.
    """
    if not isinstance(x, tf.data.Dataset):
        yield _checked(x, y, dtype)
        return
    if y is not None:
        raise ValueError("y is given, but x is a data set; let it hold x and y, and leave y out")
    for number, element in enumerate(x):
        inputs, targets, weights = keras.utils.unpack_x_y_sample_weight(element)
        if needs_y and weights is not None:
            raise ValueError("x holds sample weights, which have no likelihood; leave them out")
        yield _checked(inputs, targets if needs_y else None, dtype, f" of batch {number}")


def whole(x: Any, y: Any, dtype: tf.DType) -> tuple[Any, Any]:
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
    x, y = (keras.tree.map_structure(lambda *p: np.concatenate(p), *part) for part in (xs, ys))
    return x, y


def num_examples(data: tuple[Any, ...]) -> int:
    """The number of examples of (x, y)."""
    return int(keras.tree.flatten(data[0])[0].shape[0])


def padded_size(size: int) -> int:
    """The least power of two that is no less: so many sizes of batches are ever computed with.

    A service that is asked for any number of examples then compiles at most 11 programs for batches
    of up to 1,000, and computes at most twice what it is asked for.
    """
    return 1 << (size - 1).bit_length()


def _filled(
    parts: Iterator[tuple[Any, Any]], size: int | None, dtype: tf.DType, one_shape: bool
) -> Iterator[Batch]:
    largest = 0
    for data in parts:
        num = num_examples(data)
        most = num if size is None else min(size, largest) if one_shape and largest else size
        for start in range(0, num, most):
            count = min(most, num - start)
            largest = max(largest, count)
            limit = largest if size is None else size
            full = largest if one_shape else min(padded_size(count), limit)
            rows = np.r_[start : start + count, np.full(full - count, start)]
            x, y = keras.tree.map_structure(
                lambda leaf, r=rows: _rows(leaf, r, dtype), data, none_is_leaf=False
            )
            yield Batch(x, y, tf.constant(np.arange(full) < count, dtype))
    if not largest:
        raise ValueError("x has no batches; give at least one example")


def _rows(leaf: Any, rows: np.ndarray, dtype: tf.DType) -> tf.Tensor:
    if not isinstance(leaf, np.ndarray):
        return tf.gather(leaf, rows)
    return tf.constant(leaf[rows], dtype if leaf.dtype.kind == "f" else None)


def _checked(x: Any, y: Any, dtype: tf.DType | None, where: str = "") -> tuple[Any, Any]:
    """The dense arrays as NumPy arrays; ValueError unless they are examples, equally many."""
    if not keras.tree.flatten(x):
        raise ValueError(f"x{where} holds no array; give at least one")
    x = keras.tree.map_structure(lambda leaf: _examples(f"x{where}", leaf, dtype, text=True), x)
    if y is not None:
        y = map_arrays(lambda leaf: _examples(f"y{where}", leaf, dtype), y)
    lengths = {int(leaf.shape[0]) for leaf in keras.tree.flatten(x)}
    if len(lengths) != 1:
        raise ValueError(
            f"x{where} has arrays of {sorted(lengths)} examples; give equally many of each"
        )
    num = lengths.pop()
    for leaf in [] if y is None else keras.tree.flatten(y):
        if len(leaf) != num:
            raise ValueError(
                f"y{where} has {len(leaf)} examples and x has {num}; give one y for each"
            )
    return x, y


def _examples(name: str, leaf: Any, dtype: tf.DType | None, *, text: bool = False) -> Any:
    if isinstance(leaf, (tf.RaggedTensor, tf.SparseTensor)):
        return leaf
    wanted = "numbers or strings" if text else "numbers"
    wanted += ", or a tf.data.Dataset as x"
    return examples(name, leaf, None if dtype is None else dtype.name, text=text, wanted=wanted)
