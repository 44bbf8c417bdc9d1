"""A function of tensors, compiled once for each of their shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


class Compiled:
    """`function`, which takes structures of tensors only and gives such.

    Args:
        function: of tensors; what else it uses must not change.
        jit_compile: whether XLA compiles it.
    """

    def __init__(self, function: Callable[..., Any], jit_compile: bool) -> None:
        self._function = tf.function(function, autograph=False, jit_compile=jit_compile)
        self._of_shapes: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *tensors: Any) -> Any:
        specs = tf.nest.map_structure(tf.TensorSpec.from_tensor, tensors)
        key = tuple(tf.nest.flatten(specs))
        if key not in self._of_shapes:
            self._of_shapes[key] = self._function.get_concrete_function(*specs)
        return self._of_shapes[key](*tf.nest.flatten(tensors))
