"""The axes of inputs and outputs that the kernel of a Keras layer joins, and factors along them."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

LINEAR: tuple[type[keras.layers.Layer], ...] = (
    keras.layers.Dense,
    keras.layers.EinsumDense,
    keras.layers.Conv1D,
    keras.layers.Conv2D,
    keras.layers.Conv3D,
    keras.layers.Conv1DTranspose,
    keras.layers.Conv2DTranspose,
    keras.layers.Conv3DTranspose,
)
"""Layers that are linear in a kernel with input and output axes."""


class Factor(NamedTuple):
    """One vector a member, along some axes of a tensor.

    axes: the axes, in order; 0, which is that of the examples, is none of them.
    lengths: the lengths of the tensor there.
    rank: the number of all its axes.
    """

    axes: tuple[int, ...]
    lengths: tuple[int, ...]
    rank: int

    def along(self, w: tf.Tensor, x: tf.Tensor, member: tf.Tensor | None) -> tf.Tensor:
        """`w`, shape (K, *lengths), in a shape that meets x: row i is that of member i modulo K.

        Args:
            w: the vectors of all members.
            x: the tensor, examples first.
            member: the member that all rows are of, if it is one.
        """
        shape = [1] * (self.rank - 1)
        for axis, length in zip(self.axes, self.lengths, strict=True):
            shape[axis - 1] = length
        w = tf.reshape(w, [-1, *shape])
        if member is not None:
            return tf.gather(w, member)[None]
        size, number = tf.shape(x)[0], w.shape[0]
        return tf.tile(w, [(size + number - 1) // number, *([1] * (self.rank - 1))])[:size]


class Factors(NamedTuple):
    """Factors of inputs, of outputs before the bias, and the bias itself; None without one."""

    input: Factor
    output: Factor
    bias: Factor | None

    @classmethod
    def of(cls, layer: Any, input_shape: Any, bias_axes: str | bool | None) -> Factors:
        """The factors of a layer of one of the kinds `LINEAR`.

        Args:
            layer: the layer.
            input_shape: the shape of its inputs, examples first.
            bias_axes: the names of the axes of the bias of an `EinsumDense`; of others whether
                there is one.

        Raises:
            ValueError: if the length of one of the axes is not known.
        """
        x, y = tuple(input_shape), tuple(layer.compute_output_shape(tuple(input_shape)))
        if not isinstance(layer, keras.layers.EinsumDense):
            first = getattr(layer, "data_format", None) == "channels_first"
            given, made = _factor(x, [1 if first else -1]), _factor(y, [1 if first else -1])
            return cls(given, made, made if bias_axes else None)
        inputs, outputs = layer.equation.replace(" ", "").split("->")
        inputs, kernel = inputs.split(",")
        given = _factor(x, _places(inputs, kernel, len(x)))
        made = _factor(y, _places(outputs, kernel, len(y)))
        bias = _factor(y, _places(outputs, str(bias_axes), len(y))) if bias_axes else None
        return cls(given, made, bias)


def _places(names: str, wanted: str, rank: int) -> list[int]:
    """The axes with these names; `...` stands for all that have none."""
    before, dots, after = names.partition("...")
    axes = dict(zip(before, range(len(before)), strict=True))
    start = rank - len(after) if dots else len(before)
    axes |= dict(zip(after, range(start, rank), strict=False))
    return [axis for name, axis in axes.items() if name in wanted and axis != 0]


def _factor(shape: tuple[int | None, ...], axes: list[int]) -> Factor:
    axes = sorted(axis % len(shape) for axis in axes)
    lengths = [length for axis in axes if (length := shape[axis]) is not None]
    if len(lengths) < len(axes):
        raise ValueError(f"shape={shape} must have known lengths on the axes {axes} of the kernel")
    return Factor(tuple(axes), tuple(lengths), len(shape))
