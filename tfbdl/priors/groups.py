"""Groups of the weights of one tensor: which of them share a scale."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf

from tfbdl.arguments import option, positive_integer

_NAMES = ("weight", "input", "output", "layer")


class Groups:
    """A partition of the weights of a tensor.

    Args:
        groups: `"weight"`, each on its own; `"input"`, those that leave one input unit or channel
            (axis -2); `"output"`, those of one output unit or filter (axis -1); `"layer"`, all
            together; or K, those in each of K equal parts of the last axis, as the gates of an
            LSTM (4) or of a GRU (3).

    Raises:
        ValueError: if `groups` is none of these.
    """

    def __init__(self, groups: str | int) -> None:
        if isinstance(groups, str):
            option("groups", groups, _NAMES)
        else:
            positive_integer("groups", groups, ": so many equal parts of the last axis")
        self.groups = groups

    def shape(self, weight_shape: Sequence[int]) -> tuple[int, ...]:
        """One entry for each group, with as many axes as the weight has.

        Raises:
            ValueError: if a weight of this shape has no such groups.
        """
        shape, groups = tuple(weight_shape), self.groups
        ones = (1,) * (len(shape) - 1)
        if groups == "weight":
            return shape
        if groups == "input":
            if len(shape) < 2:
                raise ValueError(
                    f"groups='input' needs a weight with an axis of inputs, not one of shape "
                    f"{shape}; use 'weight' or 'layer'"
                )
            return (*ones[1:], shape[-2], 1)
        if groups == "output":
            return (*ones, shape[-1])
        parts = 1 if groups == "layer" else int(groups)
        if shape[-1] % parts:
            raise ValueError(
                f"groups={parts} must divide the last axis of a weight of shape {shape}"
            )
        return (*ones, parts)

    def size(self, weight_shape: Sequence[int]) -> int:
        """The number of weights in a group."""
        return math.prod(weight_shape) // math.prod(self.shape(weight_shape))

    def broadcast(self, values: tf.Tensor, weight_shape: Sequence[int]) -> tf.Tensor:
        """`values`, one for each group, in a shape that broadcasts against the weight's."""
        parts, length = values.shape[-1], weight_shape[-1]
        return values if parts in (1, length) else tf.repeat(values, length // parts, axis=-1)
