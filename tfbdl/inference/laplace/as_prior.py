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

    The regularisers that the weights had before come back at the end. Where several weights form a
    block, the first of them carries the regulariser of the whole block.

    Args:
        weights: the weights that have a posterior.
        means: the mean of each weight, flat, in float64.
        precision: H.
        deltas: the prior precision of each weight, flat, in float64.
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
    """The penalty of a block of weights, as the regulariser of its first."""

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
        dtype = tf.float64 if weights[0].dtype == "float64" else tf.float32
        self._weights, self._quadratic, self._num_data = weights, quadratic, num_data
        self._mean, self._delta, self._c = (
            tf.cast(of, dtype) for of in (tf.concat(means, 0), tf.concat(deltas, 0), c)
        )

    def __call__(self, first: keras.KerasTensor) -> tf.Tensor:
        flat = [tf.reshape(keras.ops.convert_to_tensor(w), [-1]) for w in self._weights]
        d = tf.cast(tf.concat(flat, axis=0), self._mean.dtype) - self._mean
        whole = self._c * self._quadratic(d) + tf.reduce_sum(self._delta * d**2)
        return tf.cast(whole / (2.0 * self._num_data), first.dtype)
