"""A function of one vector of weights, for many of them at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import tensorflow as tf

from tfbdl.tensorflow_private import custom_gradient

Manner: TypeAlias = Literal["vectorised", "unrolled", "looped"]
"""Chains side by side in each operation, each in operations of its own, or one after another."""

MOST_CHAINS = 16
"""Chains that are unrolled at most: the graph grows with them."""
MOST_WEIGHTS = 8_000
"""Weights up to which products of several chains at once gain less than their transposes cost."""
LEAST_WORK = 10_000
"""Weights times examples, below which it is the number of operations that takes the time."""


def manner_of(theta: tf.Tensor, num_data: int, *, has_loops: bool) -> Manner:
    """The fastest manner for a network of all weights theta, (D,) or (C, D), and N examples.

    Args:
        theta: the weights of the chains.
        num_data: N.
        has_loops: whether the network has loops, which XLA does not take vectorised.
    """
    if has_loops:
        return "looped"
    *chains, size = theta.shape
    is_few = None not in chains and sum(chains) <= MOST_CHAINS and size <= MOST_WEIGHTS
    if is_few and size * num_data >= LEAST_WORK and not tf.config.list_logical_devices("GPU"):
        return "unrolled"
    return "vectorised"


def over_chains(
    function: Callable[[tf.Tensor], tf.Tensor],
    theta: tf.Tensor,
    manner: Manner = "vectorised",
) -> tf.Tensor:
    """`function` of theta (D,), or of each of C chains (C, D), whose gradients are of first order.

    It belongs into a graph: eagerly each call would vectorise anew. The gradient of chains is taken
    inside the map: that of the map itself would, under XLA, depend on theta as a constant, and
    compile again for each theta.

    Args:
        function: theta (D,) to a number.
        theta: shape (D,) or (C, D).
        manner: how chains are computed.
    """
    if theta.shape.rank == 1:
        return function(theta)
    if manner == "unrolled":
        return tf.stack([function(chain) for chain in tf.unstack(theta)])

    def value_and_gradient(theta: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(theta)
            value = function(theta)
        return value, tape.gradient(value, theta, unconnected_gradients="zero")

    @custom_gradient
    def of_each(theta: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        if manner == "looped":
            types = (theta.dtype, theta.dtype)
            values, gradients = tf.map_fn(value_and_gradient, theta, fn_output_signature=types)
        else:
            values, gradients = tf.vectorized_map(value_and_gradient, theta)
        return values, lambda upstream: upstream[:, tf.newaxis] * gradients

    return of_each(theta)
