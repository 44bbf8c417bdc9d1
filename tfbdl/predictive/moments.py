"""Statistics of drawn functions that need no memory of the draws."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbdl.likelihoods import Joint, Likelihood


class Moments(NamedTuple):
    """Moments after some draws, for a batch of B examples.

    Where a network has several outputs, each field but `count` is a list with an entry for each
    output.

    count: number of draws, a float scalar.
    mean: mean of E[y | f], shape (B, ...).
    squares: sum of the squared deviations of E[y | f] from that mean, (B, ...).
    variance: mean of Var[y | f], (B, ...); without a likelihood zeros of shape (B,).
    entropy: mean of the entropy of y given f at each position, (B, ...), in nats; zeros of shape
        (B,) where it is unknown.
    """

    count: Any
    mean: Any
    squares: Any
    variance: Any
    entropy: Any

    def first(self, size: int) -> Moments:
        """The moments of the first `size` examples."""
        return Moments(self.count, *_each(lambda values: values[:size], self[1:]))

    def of_outputs(self) -> list[Moments]:
        """The moments of each output."""
        if not isinstance(self.mean, list):
            return [self]
        return [Moments(self.count, *parts) for parts in zip(*self[1:], strict=True)]


def of_one(outputs: Any, likelihood: Likelihood | None) -> Moments:
    """The moments of a single function."""
    if keras.tree.is_nested(outputs):
        columns = zip(keras.tree.flatten(outputs), of_each(likelihood, outputs), strict=True)
        parts = [of_one(*column) for column in columns]
        widest = max((part.mean.dtype for part in parts), key=lambda dtype: dtype.size)
        fields = [list(values) for values in zip(*(part[1:] for part in parts), strict=True)]
        return Moments(tf.ones([], widest), *_each(lambda v: tf.cast(v, widest), fields))
    if likelihood is None:
        mean = outputs if outputs.dtype == tf.float64 else tf.cast(outputs, tf.float32)
        variance = entropy = tf.zeros(tf.shape(mean)[:1], mean.dtype)
    else:
        mean, variance = likelihood.mean(outputs), likelihood.variance(outputs)
        none = tf.zeros(tf.shape(mean)[:1], mean.dtype)
        entropy = likelihood.entropy(outputs) if likelihood.has_entropy else none
    return Moments(tf.ones([], mean.dtype), mean, tf.zeros_like(mean), variance, entropy)


def of_many(
    function: Callable[[tf.Tensor], Any],
    start: tf.Tensor,
    stop: tf.Tensor,
    likelihood: Likelihood | None,
    like: Any,
) -> Moments:
    """The moments of functions number `start` to `stop` - 1, with outputs like `like`, in a graph.

    The function is traced once, and so compiled once. Means and squares are those of differences
    from the first function, which lose no digits however small they are beside the outputs;
    float64 would do the same at up to three times the cost. The result is in float64.
    """

    def one_more(s: tf.Tensor, origin: Any, total: Moments) -> tuple[tf.Tensor, Any, Moments]:
        one = of_one(function(s), likelihood)
        origin = _each(lambda mean, first: tf.where(s == start, mean, first), one.mean, origin)
        return s + 1, origin, merge(total, one._replace(mean=_each(tf.subtract, one.mean, origin)))

    none = _each(tf.zeros_like, of_one(like, likelihood))
    _, origin, total = tf.while_loop(lambda s, *_: s < stop, one_more, (start, none.mean, none))
    origin, total = _each(lambda value: tf.cast(value, tf.float64), (origin, total))
    return total._replace(mean=_each(tf.add, origin, total.mean))


def stacked(moments: Moments) -> Moments:
    """The same with a first axis, along which those of replicas are put together."""
    return _each(lambda value: value[None], moments)


def merged(replicas: Moments) -> Moments:
    """The moments of all replicas, from arrays along whose first axis they are; in float64."""
    arrays = _each(lambda value: np.asarray(value, np.float64), replicas)
    return reduce(merge, (_each(lambda v, r=r: v[r], arrays) for r in range(len(arrays.count))))


def merge(a: Moments, b: Moments) -> Moments:
    """The moments of both (Chan, Golub, LeVeque 1979, equation 2.1)."""
    count = a.count + b.count
    share = b.count / count
    deviation = _each(lambda one, other: other - one, a.mean, b.mean)

    def average(one: Any, other: Any) -> Any:
        return (1.0 - share) * one + share * other  # `other` may be infinite

    return Moments(
        count,
        _each(lambda mean, d: mean + share * d, a.mean, deviation),
        _each(
            lambda one, other, d: one + other + a.count * share * d**2,
            *(a.squares, b.squares, deviation),
        ),
        _each(average, a.variance, b.variance),
        _each(average, a.entropy, b.entropy),
    )


def of_each(likelihood: Likelihood | None, outputs: Any) -> list[Likelihood | None]:
    """The likelihood of each output."""
    if isinstance(likelihood, Joint):
        return likelihood.parts
    return [likelihood] * len(keras.tree.flatten(outputs))


def _each(function: Callable[..., Any], *structures: Any) -> Any:
    return tf.nest.map_structure(function, *structures)
