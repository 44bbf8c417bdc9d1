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
    return np if isinstance(values, np.ndarray) else keras.ops


def erf(values: Any) -> Any:
    """The error function."""
    return scipy.special.erf(values) if isinstance(values, np.ndarray) else tf.math.erf(values)


def log(p: Any) -> Any:
    """Log p of float64, p >= 0: -inf at 0, and finite at numbers that TensorFlow takes for 0."""
    if isinstance(p, np.ndarray):
        with np.errstate(divide="ignore"):
            return np.log(p)
    steps = tf.bitcast(p, tf.int64)  # of 2^-1074, below 2^-1022
    exact = tf.math.log(tf.cast(steps, tf.float64)) - 1074.0 * math.log(2.0)
    return tf.where((steps > 0) & (steps < 2**52), exact, tf.math.log(p))


def ratio(numerator: Any, denominator: Any) -> Any:
    """The quotient of values of one shape, 0 where the denominator is 0."""
    if isinstance(numerator, np.ndarray):
        out = np.zeros_like(numerator)
        return np.divide(numerator, denominator, out=out, where=denominator != 0.0)
    return tf.math.divide_no_nan(numerator, denominator)


def one_hot(label: Any, p: Any) -> Any:
    """1 at the label, of shape (N,), and 0 elsewhere, of the shape and type of p, (N, C)."""
    if isinstance(p, np.ndarray):
        return (label[:, None] == np.arange(p.shape[1])).astype(p.dtype)
    return tf.one_hot(label, tf.shape(p)[1], dtype=p.dtype)
