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
"""Weights that unrolled chains have at most, by `benchmarks/manners.py`."""
LEAST_WORK = 10_000
"""Weights times examples that unrolled chains have at least: below, operations count, not sizes."""


def manner_of(num_chains: int | None, size: int, num_data: int, *, has_loops: bool) -> Manner:
    """The manner for C chains of D weights and N examples: the fastest, where XLA takes it.

    Vectorised, hidden units of the chains are transposed between products, on a CPU by loops that
    XLA does not vectorise; products of many inputs with the weights of all chains repay that.

    Args:
        num_chains: C, or None where the graph does not know it.
        size: D.
        num_data: N, or 0 for a function of the weights alone.
        has_loops: whether the function has loops, which XLA does not take vectorised.
    """
    if has_loops:
        return "looped"
    is_small = num_chains is not None and num_chains <= MOST_CHAINS and size <= MOST_WEIGHTS
    if is_small and size * num_data >= LEAST_WORK and not tf.config.list_logical_devices("GPU"):
        return "unrolled"
    return "vectorised"


def over_chains(
    function: Callable[[tf.Tensor], tf.Tensor],
    theta: tf.Tensor,
    *,
    num_data: int = 0,
    has_loops: bool = False,
) -> tf.Tensor:
    """`function` of theta (D,), or of each of C chains (C, D), whose gradients are of first order.

    It belongs into a graph: eagerly each call would vectorise anew. The gradient of chains is taken
    inside the map: that of the map itself would, under XLA, depend on theta as a constant, and
    compile again for each theta.

    Args:
        function: theta (D,) to a number.
        theta: shape (D,) or (C, D).
        num_data: as in `manner_of`.
        has_loops: as in `manner_of`.
    """
    if theta.shape.rank == 1:
        return function(theta)
    num_chains, size = theta.shape
    manner = manner_of(num_chains, size, num_data, has_loops=has_loops)
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
