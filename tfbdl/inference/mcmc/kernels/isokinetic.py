"""Isokinetic dynamics: a point that moves at one speed, and whose direction the gradient turns.

    dz/dt = sqrt(D) u,    du/dt = sqrt(D) / (D - 1) (I - u u^T) grad log p(z),    |u| = 1

leave p(z) times the uniform law of u as it is (Robnik, De Luca, Silverstein, Seljak 2023,
"Microcanonical Hamiltonian Monte Carlo", section 3; Ver Steeg and Galstyan 2021). The speed is that
of Hamiltonian dynamics on average, so that step sizes and lengths have the same units.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import tensorflow as tf

from tfbdl import random
from tfbdl.inference.density import Density, value_and_gradient
from tfbdl.inference.mcmc.kernels.base import Kernel, State, seed_key

LAMBDA = 0.1931833275037836
"""The minimal-norm splitting's coefficient (McLachlan 1995)."""
GRADIENTS = 2
"""The gradients that an `integrate` takes."""


class Moving(NamedTuple):
    """The state of the chains, and their directions u, (C, D), in units of the metric."""

    theta: tf.Tensor
    log_prob: tf.Tensor
    gradient: tf.Tensor
    direction: tf.Tensor

    @classmethod
    def of(cls, state: State, direction: tf.Tensor) -> Moving:
        """A state that moves in a direction."""
        return cls(state.theta, state.log_prob, state.gradient, direction)


def any_direction(seed: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Directions from the uniform law, (C, D)."""
    return unit(random.normal(seed_key(seed), like.shape, like.dtype))


def unit(v: tf.Tensor) -> tf.Tensor:
    """Rows of length 1."""
    return v / tf.norm(v, axis=-1, keepdims=True)


def turn(direction: tf.Tensor, gradient: tf.Tensor, time: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The direction after it was turned by a constant gradient, and the kinetic energy's gain.

    The solution in closed form (Robnik et al. 2023, equation 16), in exponentials that do not
    overflow.

    Args:
        direction: u, shape (C, D).
        gradient: grad log p(z), shape (C, D).
        time: shape (C,).

    Returns:
        The directions, and (D - 1) log(cosh delta + u.e sinh delta), shape (C,), in nats: minus the
        logarithm of the change of volume.
    """
    size = direction.shape[-1]
    norm = tf.norm(gradient, axis=-1)
    e = tf.math.divide_no_nan(gradient, norm[:, None])
    delta = time * math.sqrt(size) / (size - 1) * norm
    along = tf.reduce_sum(direction * e, axis=-1)
    zeta = tf.exp(-delta)
    ahead = -tf.math.expm1(-delta) * (1.0 + zeta - along * tf.math.expm1(-delta))
    turned = unit(ahead[:, None] * e + 2.0 * zeta[:, None] * direction)
    gain = delta + tf.math.log1p(0.5 * (1.0 - along) * tf.math.expm1(-2.0 * delta))
    return turned, (size - 1) * gain


def integrate(
    target: Density, state: Moving, step_size: tf.Tensor, scale: tf.Tensor
) -> tuple[Moving, tf.Tensor]:
    """One step of minimal norm, and the energy's error, (C,), in nats; see `Kernel.step`."""
    theta, log_prob, gradient, direction = state
    drift = 0.5 * math.sqrt(theta.shape[-1]) * step_size[:, None] * scale
    direction, kinetic = turn(direction, scale * gradient, LAMBDA * step_size)
    for part in (1.0 - 2.0 * LAMBDA, LAMBDA):
        theta += drift * direction
        after, gradient = value_and_gradient(target, theta)
        direction, gain = turn(direction, scale * gradient, part * step_size)
        kinetic += gain
    return Moving(theta, after, gradient, direction), kinetic - (after - log_prob)


def needs_two_weights(kernel: Kernel, theta: tf.Tensor) -> None:
    """Raises ValueError where there is one weight alone, which has no direction to turn to."""
    if theta.shape[-1] < 2:
        raise ValueError(f"kernel={type(kernel).__name__} needs two weights; take kernel='nuts'")
