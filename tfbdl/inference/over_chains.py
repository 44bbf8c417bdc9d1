"""A function of one vector of weights, for many of them at once."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfbdl.tensorflow_private import custom_gradient


def over_chains(
    function: Callable[[tf.Tensor], tf.Tensor], theta: tf.Tensor, *, one_by_one: bool = False
) -> tf.Tensor:
    """`function` of theta (D,), or of each of C chains (C, D), whose gradients are of first order.

    It belongs into a graph: eagerly each call would vectorise anew. The gradient of chains is taken
    inside the map: that of the map itself would, under XLA, depend on theta as a constant, and
    compile again for each theta.

    Args:
        function: theta (D,) to a number.
        theta: shape (D,) or (C, D).
        one_by_one: chains in a loop, for a function with loops, which XLA does not take vectorised.
    """
    if theta.shape.rank == 1:
        return function(theta)

    def value_and_gradient(theta: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(theta)
            value = function(theta)
        return value, tape.gradient(value, theta, unconnected_gradients="zero")

    @custom_gradient
    def of_each(theta: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        if one_by_one:
            types = (theta.dtype, theta.dtype)
            values, gradients = tf.map_fn(value_and_gradient, theta, fn_output_signature=types)
        else:
            values, gradients = tf.vectorized_map(value_and_gradient, theta)
        return values, lambda upstream: upstream[:, tf.newaxis] * gradients

    return of_each(theta)
