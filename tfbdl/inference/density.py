"""Log densities as functions, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import tensorflow as tf

from tfbdl.arguments import shown

Density: TypeAlias = Callable[[tf.Tensor], tf.Tensor]
"""From theta, (C, D), to log densities up to a constant, (C,), in nats; joint priors from (D,)."""


def value_and_gradient(target: Density, theta: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The log density of each row of theta, (C, D), and its gradient: (C,) and (C, D).

    Raises:
        ValueError: if the target is no density, or has no gradient.
    """
    with tf.GradientTape() as tape:
        tape.watch(theta)
        log_prob = density_at(target, theta)
    gradient = tape.gradient(log_prob, theta)
    if gradient is None:
        raise ValueError("target has no gradient; use kernel='rwmh', which needs none")
    return log_prob, tf.convert_to_tensor(gradient)


def density_at(target: Density, theta: tf.Tensor) -> tf.Tensor:
    """The log density of each row of theta, (C, D): shape (C,).

    Raises:
        ValueError: if the target gives anything else.
    """
    values = target(theta)
    is_tensor = tf.is_tensor(values) and values.dtype == theta.dtype
    if not is_tensor or not values.shape.is_compatible_with(theta.shape[:1]):
        raise ValueError(
            f"target gives {shown(values)} for theta of shape {tuple(theta.shape)} and type "
            f"{theta.dtype.name}; let it give a log density of that type for each row"
        )
    return values
