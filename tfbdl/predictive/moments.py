"""Statistics of drawn functions that need no memory of the draws."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfbdl.likelihoods import Likelihood


class Moments(NamedTuple):
    """Moments after some draws, for a batch of B examples.

    count: number of draws, a float scalar.
    mean: mean of E[y | f], shape (B, ...).
    squares: sum of the squared deviations of E[y | f] from that mean, (B, ...).
    variance: mean of Var[y | f], (B, ...); without a likelihood zeros of shape (B,).
    entropy: mean of the entropy of y given f, (B,), in nats; zeros where it is unknown.
    """

    count: Any
    mean: Any
    squares: Any
    variance: Any
    entropy: Any

    def first(self, size: int) -> Moments:
        """The moments of the first `size` examples."""
        return Moments(self.count, *(values[:size] for values in self[1:]))


def of_one(outputs: tf.Tensor, likelihood: Likelihood | None) -> Moments:
    """The moments of a single function."""
    if likelihood is None:
        mean = outputs if outputs.dtype == tf.float64 else tf.cast(outputs, tf.float32)
        variance = entropy = tf.zeros(tf.shape(mean)[:1], mean.dtype)
    else:
        mean, variance = likelihood.mean(outputs), likelihood.variance(outputs)
        none = tf.zeros(tf.shape(mean)[:1], mean.dtype)
        entropy = likelihood.entropy(outputs) if likelihood.has_entropy else none
    return Moments(tf.ones([], mean.dtype), mean, tf.zeros_like(mean), variance, entropy)


def of_many(
    function: Callable[[tf.Tensor], tf.Tensor],
    start: tf.Tensor,
    stop: tf.Tensor,
    likelihood: Likelihood | None,
    like: tf.Tensor,
) -> Moments:
    """The moments of functions number `start` to `stop` - 1, with outputs like `like`, in a graph.

    The function is traced once, and so compiled once. Means and squares are those of differences
    from the first function, which lose no digits however small they are beside the outputs;
    float64 would do the same at up to three times the cost. The result is in float64.
    """

    def one_more(
        s: tf.Tensor, origin: tf.Tensor, total: Moments
    ) -> tuple[tf.Tensor, tf.Tensor, Moments]:
        one = of_one(function(s), likelihood)
        origin = tf.where(s == start, one.mean, origin)
        return s + 1, origin, merge(total, one._replace(mean=one.mean - origin))

    none = Moments(*(tf.zeros_like(value) for value in of_one(like, likelihood)))
    _, origin, total = tf.while_loop(lambda s, *_: s < stop, one_more, (start, none.mean, none))
    total = Moments(*(tf.cast(value, tf.float64) for value in total))
    return total._replace(mean=tf.cast(origin, tf.float64) + total.mean)


def stacked(moments: Moments) -> Moments:
    """The same with a first axis, along which those of replicas are put together."""
    return Moments(*(value[None] for value in moments))


def merged(replicas: Moments) -> Moments:
    """The moments of all replicas, from arrays along whose first axis they are; in float64."""
    arrays = (np.asarray(value, np.float64) for value in replicas)
    return reduce(merge, (Moments(*values) for values in zip(*arrays, strict=True)))


def merge(a: Moments, b: Moments) -> Moments:
    """The moments of both (Chan, Golub, LeVeque 1979, equation 2.1)."""
    count = a.count + b.count
    share = b.count / count
    deviation = b.mean - a.mean
    return Moments(
        count,
        a.mean + share * deviation,
        a.squares + b.squares + a.count * share * deviation**2,
        (1.0 - share) * a.variance + share * b.variance,  # which may be infinite
        (1.0 - share) * a.entropy + share * b.entropy,
    )
