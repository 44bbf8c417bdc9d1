"""Several outputs of a network as one row of numbers, and back."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf


class SideBySide:
    """Outputs of shapes (B, ...) as rows of shape (B, F_1 + F_2 + ...).

    Args:
        structure: any object in the structure of the outputs.
        shapes: the shapes of an example of each output, in the order of `keras.tree.flatten`.
    """

    def __init__(self, structure: Any, shapes: Sequence[tuple[int, ...]]) -> None:
        self.structure, self.shapes = structure, list(shapes)
        self.sizes = [math.prod(shape) for shape in self.shapes]

    @classmethod
    def of(cls, outputs: Any) -> SideBySide:
        """Makes one for the symbolic outputs of a model.

        Raises:
            ValueError: if a length in them is not known.
        """
        shapes = [tuple(output.shape[1:]) for output in keras.tree.flatten(outputs)]
        if any(None in shape for shape in shapes):
            raise ValueError(
                f"outputs have shapes {shapes}; give the model inputs of fixed lengths"
            )
        return cls(outputs, shapes)

    def row(self, outputs: Any) -> tf.Tensor:
        """The outputs in one row, shape (B, F)."""
        columns = zip(keras.tree.flatten(outputs), self.sizes, strict=True)
        return tf.concat([tf.reshape(part, [-1, size]) for part, size in columns], axis=-1)

    def rows_of(self, function: Callable[..., Any]) -> Callable[..., tf.Tensor]:
        """A function like `function` that gives rows."""
        return lambda *args, **kwargs: self.row(function(*args, **kwargs))

    def parts(self, row: Any) -> list[Any]:
        """The outputs one by one, of shapes (..., *shape), of a tensor or an array (..., F)."""
        ends = np.cumsum([0, *self.sizes])
        reshape = tf.reshape if tf.is_tensor(row) else np.reshape
        leading = [-1] if tf.is_tensor(row) else row.shape[:-1]
        return [
            reshape(row[..., i:j], [*leading, *shape])
            for (i, j), shape in zip(itertools.pairwise(ends), self.shapes, strict=True)
        ]

    def split(self, row: Any) -> Any:
        """The outputs of `parts` in their structure."""
        return keras.tree.pack_sequence_as(self.structure, self.parts(row))
