"""The Metropolis test (Metropolis et al. 1953), and what it needs."""

from __future__ import annotations

from typing import TypeVar

import tensorflow as tf

from tfbdl.inference.kernels.base import State
from tfbdl.inference.kernels.noise import Noise

Structure = TypeVar("Structure")


def finite_or_infinite(energy_error: tf.Tensor) -> tf.Tensor:
    """The energy error with +inf, which no test accepts, for what is not a number."""
    infinite = tf.fill(tf.shape(energy_error), tf.constant(float("inf"), energy_error.dtype))
    return tf.where(tf.math.is_finite(energy_error), energy_error, infinite)


def acceptance(energy_error: tf.Tensor) -> tf.Tensor:
    """min(1, exp(-energy_error)), the Metropolis probability of acceptance, shape (C,)."""
    return tf.exp(-tf.maximum(energy_error, 0.0))


def metropolis(
    noise: Noise, state: State, proposal: State, energy_error: tf.Tensor
) -> tuple[State, tf.Tensor]:
    """`proposal` with probability min(1, exp(-energy_error)), else `state`; that probability."""
    accept_prob = acceptance(energy_error)
    accepted = noise.uniform(1, accept_prob.dtype)[:, 0] < accept_prob
    return select(accepted, proposal, state), accept_prob


def select(condition: tf.Tensor, yes: Structure, no: Structure) -> Structure:
    """Of each chain what `condition`, shape (C,), says, in a structure of tensors (C, ...)."""

    def one(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.where(tf.reshape(condition, [-1] + [1] * (a.shape.rank - 1)), a, b)

    return tf.nest.map_structure(one, yes, no)
