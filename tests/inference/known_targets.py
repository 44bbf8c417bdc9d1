"""Densities whose draws are known, and kernels run on them without the rest of `MCMC`."""

import functools
from typing import Any

import numpy as np
import scipy.stats
import tensorflow as tf

from tfbdl.inference.mcmc.kernels.base import Info

COVARIANCE = np.array([[1.0, 0.8, 0.0], [0.8, 2.0, -0.3], [0.0, -0.3, 0.25]])
MEAN = np.array([1.0, -2.0, 0.5])
CURVE = 0.5


def gaussian(theta: Any) -> Any:
    """N(MEAN, COVARIANCE), up to a constant."""
    centred = theta - tf.constant(MEAN, theta.dtype)
    precision = tf.constant(np.linalg.inv(COVARIANCE), theta.dtype)
    return -0.5 * tf.reduce_sum(centred * (centred @ precision), axis=1)


def banana(theta: Any) -> Any:
    """a ~ N(0, 1), b ~ N(CURVE (a^2 - 1), 1/4), up to a constant."""
    a, b = theta[:, 0], theta[:, 1]
    return -0.5 * a**2 - 0.5 * ((b - CURVE * (a**2 - 1)) / 0.5) ** 2


def density(theta: Any) -> Any:
    """N(2, diag(1, 1/4)), up to a constant."""
    return -0.5 * tf.reduce_sum(((theta - 2.0) / tf.constant([1.0, 0.5])) ** 2, axis=1)


START = {"initial": np.zeros(2, "float32"), "jit_compile": False}
"""Where methods start on `density`, and how they run."""


def both(theta: Any) -> Any:
    """The Gaussian's three and the banana's two weights."""
    return gaussian(theta[:, :3]) + banana(theta[:, 3:])


def from_standard(z: Any) -> Any:
    """Draws of `both` from standard normal ones, (C, 5)."""
    a, b = z[:, 3], z[:, 4]
    bent = np.stack([a, CURVE * (a**2 - 1) + 0.5 * b], axis=1)
    return np.concatenate([MEAN + z[:, :3] @ np.linalg.cholesky(COVARIANCE).T, bent], axis=1)


def to_standard(theta: Any) -> Any:
    """The standard normal ones that draws of `both` are from."""
    white = (theta[:, :3] - MEAN) @ np.linalg.inv(np.linalg.cholesky(COVARIANCE)).T
    a, b = theta[:, 3], theta[:, 4]
    straight = np.stack([a, (b - CURVE * (a**2 - 1)) / 0.5], axis=1)
    return np.concatenate([white, straight], axis=1)


def p_values(standard: Any) -> Any:
    """Kolmogorov-Smirnov p values that the columns, and their pairwise sums, are normal."""
    columns = [standard[:, i] for i in range(standard.shape[1])]
    pairs = [(a + b) / np.sqrt(2) for i, a in enumerate(columns) for b in columns[:i]]
    return np.array([scipy.stats.kstest(c, "norm").pvalue for c in columns + pairs])


@functools.cache
def _walker(kernel: Any, target: Any) -> Any:
    @tf.function(autograph=False)
    def run(theta: Any, steps: Any, step_size: Any, scale: Any) -> Any:
        def step(i: Any, state: Any, _: Any) -> Any:
            seed = tf.random.fold_in(tf.constant([3, 0]), i)
            return i + 1, *kernel.step(target, state, seed, step_size, scale)

        none = Info.of(tf.zeros_like(theta[:, 0]))
        start = (tf.constant(0), kernel.init(target, theta, tf.constant([0, 0])), none)
        return tf.while_loop(lambda i, *_: i < steps, step, start)[1:]

    return run


def walk(
    kernel: Any, target: Any, theta: Any, steps: Any, *, step_size: float = 1.0, scale: float = 1.0
) -> Any:
    """Where chains at theta, (C, D), are after `steps` of a kernel, and the last step's info."""
    theta = tf.constant(theta)
    scale = tf.constant(np.broadcast_to(scale, theta.shape), theta.dtype)
    step_size = tf.constant(np.broadcast_to(step_size, len(theta)), theta.dtype)
    state, info = _walker(kernel, target)(theta, tf.constant(steps), step_size, scale)
    return tf.nest.map_structure(lambda a: a.numpy(), (state, info))
