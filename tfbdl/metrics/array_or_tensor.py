"""Operations on arrays and on tensors, so that a formula is one for both.

`operations` are NumPy's or Keras', which have most in common; the others are those that have not.
"""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import scipy.special
import tensorflow as tf


def operations(values: Any) -> Any:
    """NumPy for an array, `keras.ops` for a tensor."""
    return keras.ops if tf.is_tensor(values) else np


def erf(values: Any) -> Any:
    """The error function."""
    return tf.math.erf(values) if tf.is_tensor(values) else scipy.special.erf(values)


def log(p: Any) -> Any:
    """Logarithm of float64 p >= 0; finite, but for XLA, where TensorFlow takes p > 0 for 0."""
    if not tf.is_tensor(p):
        with np.errstate(divide="ignore"):
            return np.log(p)
    steps = tf.bitcast(p, tf.int64)  # of 2^-1074, below 2^-1022
    exact = tf.math.log(tf.cast(steps, tf.float64)) - 1074.0 * math.log(2.0)
    return tf.where((steps > 0) & (steps < 2**52), exact, tf.math.log(p))


def ratio(numerator: Any, denominator: Any) -> Any:
    """The quotient of values of one shape, 0 where the denominator is 0."""
    if tf.is_tensor(numerator):
        return tf.math.divide_no_nan(numerator, denominator)
    return np.divide(numerator, denominator, np.zeros_like(numerator), where=denominator != 0.0)
