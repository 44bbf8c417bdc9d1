"""Hyperpriors p(s) of the scales of hierarchical priors, all through u = log s.

Each knows E_q[log p(u)] under q(u) = N(m, v^2), and where p(u) has its mode and how sharp it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.priors.gamma import log_gamma
from tfbdl.probability import tfp

# The trapezoidal rule for E[f(z)], z ~ N(0, 1), whose error falls exponentially for analytic f.
_NODES = np.linspace(-6.0, 6.0, 41)
_WEIGHTS = np.exp(-0.5 * _NODES**2) / np.sum(np.exp(-0.5 * _NODES**2))


class Hyperprior:
    """p(u) of u = log s.

    Attributes:
        mode: the u at which p(u) is highest.
        curvature: -d^2 log p(u) / du^2 there.
    """

    mode: float
    curvature: float

    def expected_log_prob(self, m: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        """E[log p(u)] under N(m, v^2), elementwise, in nats."""
        raise NotImplementedError

    def sample(self, key: tf.Tensor, shape: Sequence[int]) -> tf.Tensor:
        """Samples of p(u), in float32."""
        raise NotImplementedError


class InverseGamma(Hyperprior):
    """s^2 ~ InverseGamma(shape, rate), so that the precision s^-2 ~ Gamma(shape, rate).

    p(s^2) is proportional to s^-2(shape + 1) exp(-rate / s^2).
    """

    def __init__(self, shape: float, rate: float) -> None:
        self.shape, self.rate = shape, rate
        self.mode = 0.5 * math.log(rate / shape)
        self.curvature = 4.0 * shape

    def expected_log_prob(self, m: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        """The closed form, from E[s^-2] = exp(2 v^2 - 2 m)."""
        constant = math.log(2.0) + self.shape * math.log(self.rate) - math.lgamma(self.shape)
        precision_times_rate = tf.exp(2.0 * (tf.square(v) - m) + math.log(self.rate))
        return constant - 2.0 * self.shape * m - precision_times_rate

    def sample(self, key: tf.Tensor, shape: Sequence[int]) -> tf.Tensor:
        return 0.5 * (math.log(self.rate) - log_gamma(key, self.shape, shape))


class HalfCauchy(Hyperprior):
    """p(s) = 2 / (pi scale (1 + s^2 / scale^2)), so that p(u) = 1 / (pi cosh(u - log scale))."""

    curvature = 1.0

    def __init__(self, scale: float) -> None:
        self.mode = math.log(scale)

    def expected_log_prob(self, m: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        """The expectation by quadrature, within 1e-6 for v up to 2.5; p(u) has stddev 1.57."""
        nodes, weights = (tf.constant(a, m.dtype) for a in (_NODES, _WEIGHTS))
        x = (m - self.mode)[..., tf.newaxis] + v[..., tf.newaxis] * nodes
        return -math.log(math.pi) - tf.linalg.matvec(tfp.math.log_cosh(x), weights)

    def sample(self, key: tf.Tensor, shape: Sequence[int]) -> tf.Tensor:
        below, above = (tf.sin(0.5 * math.pi * u) for u in random.tails(key, shape))
        return self.mode + tf.math.log(below / above)
