"""Statistics of drawn functions that need no memory of the draws."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfbdl.likelihoods import Likelihood


class Moments(NamedTuple):
    """What is known after some draws, for a batch of B examples.

    count: number of draws, a float scalar.
    mean: mean of E[y | f], shape (B, ...).
    squares: sum of the squared deviations of E[y | f] from that mean, (B, ...).
    variance: mean of Var[y | f], (B, ...); zeros without a likelihood.
    entropy: mean of the entropy of y given f, (B,), in nats; zeros without a likelihood.
    """

    count: Any
    mean: Any
    squares: Any
    variance: Any
    entropy: Any

    def first(self, size: int) -> Moments:
        """Those of the first `size` examples."""
        return Moments(self.count, *(values[:size] for values in self[1:]))


def of_one(outputs: tf.Tensor, likelihood: Likelihood | None) -> Moments:
    """The moments of a single function."""
    if likelihood is None:
        mean = tf.cast(outputs, tf.float32)
        variance, entropy = tf.zeros_like(mean), tf.zeros(tf.shape(mean)[:1])
    else:
        mean, variance = likelihood.mean(outputs), likelihood.variance(outputs)
        entropy = likelihood.entropy(outputs)
    return Moments(tf.ones([], mean.dtype), mean, tf.zeros_like(mean), variance, entropy)


def of_many(
    function: Callable[[tf.Tensor], tf.Tensor],
    start: tf.Tensor,
    stop: tf.Tensor,
    likelihood: Likelihood | None,
    like: tf.Tensor,
) -> Moments:
    """The moments of functions number `start` to `stop` - 1, with outputs like `like`, in a graph.

    The function is traced once, and so compiled once.
    """

    def one_more(s: tf.Tensor, moments: Moments) -> tuple[tf.Tensor, Moments]:
        return s + 1, merge(moments, of_one(function(s), likelihood))

    none = Moments(*(tf.zeros_like(value) for value in of_one(like, likelihood)))
    return tf.while_loop(lambda s, _: s < stop, one_more, (start, none))[1]


def stacked(moments: Moments) -> Moments:
    """The same with a first axis, along which those of replicas are put together."""
    return Moments(*(value[None] for value in moments))


def merged(replicas: Moments) -> Moments:
    """Those of all replicas, of arrays along whose first axis they are; in float64."""
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
