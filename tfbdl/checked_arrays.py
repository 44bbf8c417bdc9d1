"""Inputs and targets as arrays: examples, equally many of each."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
import tensorflow as tf

from tfbdl.examples import examples, map_named_arrays


def checked_arrays(x: Any, y: Any, dtype: tf.DType | None, where: str = "") -> tuple[Any, Any]:
    """Structures of inputs and of targets, with the dense arrays as NumPy arrays.

    Args:
        x: the inputs.
        y: the targets, or None.
        dtype: the type whose range numbers must be in; None for any.
        where: words after the names in messages, such as " of batch 2".

    Raises:
        ValueError: unless all are examples, at least one, finite, and equally many.
    """
    if not keras.tree.flatten(x):
        raise ValueError(f"x{where} holds no array; give at least one")

    def checked(name: str, leaf: Any, *, text: bool = False) -> Any:
        return _examples(f"{name}{where}", leaf, dtype, text=text)

    x = map_named_arrays(partial(checked, text=True), "x", x)
    if y is not None:
        y = map_named_arrays(checked, "y", y)
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
    if isinstance(leaf, tf.RaggedTensor):
        return leaf
    if isinstance(leaf, tf.SparseTensor):
        raise ValueError(f"{name} is a SparseTensor, which has no rows; give tf.sparse.to_dense")
    wanted = "numbers or strings" if text else "numbers"
    wanted += ", or a tf.data.Dataset as x"
    return examples(name, leaf, None if dtype is None else dtype.name, text=text, wanted=wanted)
