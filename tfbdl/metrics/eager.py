"""Formulas of tensors, computed of arrays: at once, on the host, in the arrays' types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf


def computed(formula: Callable[..., Any], *arrays: np.ndarray, **options: Any) -> Any:
    """The arrays that a formula makes of arrays, while a graph is traced too."""
    with tf.init_scope(), tf.device("CPU:0"):
        made = formula(*map(tf.convert_to_tensor, arrays), **options)
        return tf.nest.map_structure(np.asarray, made)


def mean(formula: Callable[..., tf.Tensor], *arrays: np.ndarray, **options: Any) -> float:
    """The mean of all values that a formula makes of arrays."""
    return float(np.mean(computed(formula, *arrays, **options)))
