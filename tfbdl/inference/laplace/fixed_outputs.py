"""What goes through the Jacobian has as many outputs in each batch."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from tfbdl.inference.laplace.jacobian import Jacobian, State
from tfbdl.lengths import shapes_of


class FixedOutputs:
    """The number of outputs of an example, for inputs of any length.

    Args:
        jacobian: the network.
        number: F, as at `fit`.
    """

    def __init__(self, jacobian: Jacobian, number: int) -> None:
        self._jacobian, self._number = jacobian, number
        self._known: dict[tuple[tuple[int, ...], ...], tuple[int, ...]] = {}

    def check(self, theta: tf.Tensor, state: State, x: Any) -> None:
        """Raises ValueError unless each of the inputs x has F outputs."""
        of_x = tuple(shapes_of(x))
        if of_x not in self._known:
            one = tf.nest.map_structure(lambda leaf: leaf[:1], x)
            self._known[of_x] = tuple(self._jacobian.outputs(theta, state, one).shape[1:])
        shape = self._known[of_x]
        if math.prod(shape) != self._number:
            raise ValueError(
                f"x has outputs of shape {shape}, {math.prod(shape)} numbers, where those of fit "
                f"have {self._number}; Laplace takes sequences of one length: fill them up, with a "
                "mask"
            )
