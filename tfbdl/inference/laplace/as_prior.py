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

    def of_block(places: Sequence[int], quadratic: Callable[[tf.Tensor], tf.Tensor]) -> _Penalty:
        mean = tf.concat([means[place] for place in places], axis=0)
        delta = tf.concat([deltas[place] for place in places], axis=0)

        def penalty(first: keras.KerasTensor) -> tf.Tensor:
            values = [keras.ops.convert_to_tensor(weights[place]) for place in places]
            theta = tf.concat([tf.reshape(value, [-1]) for value in values], axis=0)
            d = tf.cast(theta, tf.float64) - mean
            whole = c * quadratic(d) + tf.reduce_sum(delta * d**2)
            return tf.cast(whole / (2.0 * num_data), first.dtype)

        return _Penalty(penalty)

    before = [weight.regularizer for weight in weights]
    for weight in weights:
        weight.regularizer = None
    for places, quadratic in precision.quadratics:
        weights[places[0]].regularizer = of_block(places, quadratic)
    try:
        yield
    finally:
        for weight, regularizer in zip(weights, before, strict=True):
            weight.regularizer = regularizer


class _Penalty(keras.regularizers.Regularizer):
    """A function of a weight as its regulariser: Keras 3.12 takes none that is bare."""

    def __init__(self, function: Callable[[keras.KerasTensor], tf.Tensor]) -> None:
        self._function = function

    def __call__(self, weight: keras.KerasTensor) -> tf.Tensor:
        return self._function(weight)
