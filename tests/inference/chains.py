"""Densities whose moments are known, and kernels run on them without the rest of `MCMC`."""

import numpy as np
import scipy.stats
import tensorflow as tf

from tfbdl.inference.kernels.base import Info
from tfbdl.inference.kernels.noise import Noise

COVARIANCE = np.array([[1.0, 0.8, 0.0], [0.8, 2.0, -0.3], [0.0, -0.3, 0.25]])
MEAN = np.array([1.0, -2.0, 0.5])


def gaussian(theta):
    """N(MEAN, COVARIANCE), up to a constant."""
    centred = theta - tf.constant(MEAN, theta.dtype)
    precision = tf.constant(np.linalg.inv(COVARIANCE), theta.dtype)
    return -0.5 * tf.reduce_sum(centred * (centred @ precision), axis=1)


def gaussian_draws(rng, num):
    return rng.multivariate_normal(MEAN, COVARIANCE, num)


CURVE = 0.5


def banana(theta):
    """a ~ N(0, 1), b ~ N(CURVE (a^2 - 1), 1/4)."""
    a, b = theta[:, 0], theta[:, 1]
    return -0.5 * a**2 - 0.5 * ((b - CURVE * (a**2 - 1)) / 0.5) ** 2


def banana_draws(rng, num):
    a = rng.normal(size=num)
    return np.stack([a, CURVE * (a**2 - 1) + 0.5 * rng.normal(size=num)], axis=1)


def straightened(theta):
    """The banana's two independent standard normals."""
    a, b = theta[:, 0], theta[:, 1]
    return np.stack([a, (b - CURVE * (a**2 - 1)) / 0.5], axis=1)


def whitened(theta):
    """The Gaussian's three independent standard normals."""
    return (theta - MEAN) @ np.linalg.inv(np.linalg.cholesky(COVARIANCE)).T


def p_values(standard):
    """Kolmogorov-Smirnov p values that the columns, and their pairwise sums, are normal."""
    columns = [standard[:, i] for i in range(standard.shape[1])]
    pairs = [(a + b) / np.sqrt(2) for i, a in enumerate(columns) for b in columns[:i]]
    return np.array([scipy.stats.kstest(c, "norm").pvalue for c in columns + pairs])


def walk(kernel, density, theta, steps, *, step_size, scale=1.0, seed=0):
    """Where chains at theta, (C, D), are after `steps` of a kernel, and the last step's info."""

    @tf.function(jit_compile=True, autograph=False)
    def run(theta):
        num_chains = theta.shape[0]
        step_sizes = tf.fill([num_chains], tf.constant(step_size, theta.dtype))
        scales = tf.constant(scale, theta.dtype) * tf.ones([num_chains, 1], theta.dtype)
        chains = tf.range(num_chains)

        def step(i, state, _):
            noise = Noise.at(seed, i, chains)
            return i + 1, *kernel.step(density, state, noise, step_sizes, scales)

        zeros = tf.zeros([num_chains], theta.dtype)
        none = Info(zeros, tf.zeros_like(zeros, tf.bool), tf.zeros_like(zeros, tf.int32))
        start = (tf.constant(1), kernel.init(density, theta), none)
        return tf.while_loop(lambda i, *_: i <= steps, step, start)[1:]

    state, info = run(tf.constant(theta))
    return tf.nest.map_structure(lambda a: a.numpy(), (state, info))
