"""A posterior as the prior of a network that trains on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import keras
import tensorflow as tf

from tfbdl.inference.laplace.precision import Precision


@contextmanager
def as_prior(
    weights: Sequence[keras.Variable],
    means: Sequence[tf.Tensor],
    precision: Precision,
    *,
    deltas: Sequence[tf.Tensor],
    c: tf.Tensor,
    num_data: int,
) -> Iterator[None]:
    """Gives the weights (theta - mean)^T (c H + diag(delta)) (theta - mean) / (2 N) as regulariser.

    The regularisers that they have come back at the end. Of a block of several weights the first
    has that of all.

    Args:
        weights: those with a posterior.
        means: theirs, each flat, in float64.
        precision: H.
        deltas: that of each weight, flat, in float64.
        c: the scale of H.
        num_data: N, as Keras' loss is a mean over examples.
    """
    before = [weight.regularizer for weight in weights]
    for weight in weights:
        weight.regularizer = None
    for places, quadratic in precision.quadratics:
        block, mean, delta = (
            [of_each[place] for place in places] for of_each in (weights, means, deltas)
        )
        block[0].regularizer = _Penalty(
            block, mean, delta, quadratic=quadratic, c=c, num_data=num_data
        )
    try:
        yield
    finally:
        for weight, regularizer in zip(weights, before, strict=True):
            weight.regularizer = regularizer


class _Penalty(keras.regularizers.Regularizer):
    """That of a block of weights, as the regulariser of its first."""

    def __init__(
        self,
        weights: Sequence[keras.Variable],
        means: Sequence[tf.Tensor],
        deltas: Sequence[tf.Tensor],
        *,
        quadratic: Callable[[tf.Tensor], tf.Tensor],
        c: tf.Tensor,
        num_data: int,
    ) -> None:
        self._weights, self._quadratic, self._c = weights, quadratic, c
        self._mean, self._delta = tf.concat(means, axis=0), tf.concat(deltas, axis=0)
        self._num_data = num_data

    def __call__(self, first: keras.KerasTensor) -> tf.Tensor:
        parts = [tf.reshape(keras.ops.convert_to_tensor(w), [-1]) for w in self._weights]
        flat = tf.concat(parts, axis=0)
        dtype = tf.float64 if flat.dtype == tf.float64 else tf.float32
        d = tf.cast(tf.cast(flat, tf.float64) - self._mean, dtype)
        c, delta = (tf.cast(of, dtype) for of in (self._c, self._delta))
        whole = c * self._quadratic(d) + tf.reduce_sum(delta * d**2)
        return tf.cast(whole / (2.0 * self._num_data), first.dtype)
