"""The noise of a linear regression, known or not, and what follows from it in closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.special
import tensorflow as tf

from tfbdl.arguments import positive, shown
from tfbdl.inference.neural_linear.linear_regression import Solution
from tfbdl.inference.prior_precision import in_float64
from tfbdl.likelihoods import Normal
from tfbdl.likelihoods.base import HALF_LOG_2PI_E
from tfbdl.predictive.independent_outputs import IndependentOutputs
from tfbdl.probability import tfp


class KnownNoise:
    """Normal, of standard deviation sigma; W ~ N(0, 1 / delta) (Bishop 2006, section 3.3).

    Args:
        sigma: a number, or a tensor to take derivatives by.
    """

    def __init__(self, sigma: Any) -> None:
        self.sigma = sigma

    def in_units(self, delta: tf.Tensor) -> tf.Tensor:
        """The prior precision of weights that are divided by the noise."""
        return delta * self.sigma**2

    def log_evidence(self, solution: Solution) -> tf.Tensor:
        """Log p(y | x) in nats (Bishop 2006, equation 3.86)."""
        sigma = in_float64("sigma_noise", self.sigma)
        numbers = solution.num_data * len(solution.residual)
        errors = 0.5 * tf.reduce_sum(solution.residual) / sigma**2
        return _volume(solution) - errors - numbers * tf.math.log(sigma)

    def variance(self, solution: Solution) -> np.ndarray:
        """Mean of sigma^2, shape (F,)."""
        return np.full(len(solution.residual), self.sigma**2)

    def entropy(self, solution: Solution) -> float:
        """Mean entropy of the noise of a row, in nats."""
        return len(solution.residual) * (HALF_LOG_2PI_E + math.log(self.sigma))

    def draw(self, solution: Solution, rng: np.random.Generator, num_samples: int) -> np.ndarray:
        """Draws of sigma, shape (S, F)."""
        return np.full((num_samples, len(solution.residual)), self.sigma)

    def predictive(
        self, solution: Solution, mean: np.ndarray, scale: np.ndarray
    ) -> tfp.distributions.Distribution:
        """p(y | x) of each element of y, for a `replicas` in units of the noise."""
        return tfp.distributions.Normal(mean, self.sigma * scale)

    def joint(self, solution: Solution, mean: np.ndarray, root: np.ndarray) -> IndependentOutputs:
        """p(y | x) of an example at all its T positions.

        Args:
            solution: the posterior.
            mean: the mean of f, shape (N, ..., F).
            root: R, shape (N, T, K), for covariances R R^T of f in units of the noise.
        """
        return IndependentOutputs(_by_example(mean), np.full(mean.shape[-1], self.sigma), root)

    def likelihood(self) -> Normal:
        """p(y | a function and its noise)."""
        return Normal(self.sigma)

    def outputs(self, means: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        """The outputs that the likelihood takes, from draws (S, ..., F) and their noise (S, F)."""
        return means


class UnknownNoise:
    """sigma^2 ~ inverse gamma(a, b), W ~ N(0, sigma^2 / delta) (Murphy 2012, section 7.6.3).

    Each output has its own; methods are those of `KnownNoise`.

    Args:
        a: shape.
        b: scale.
    """

    def __init__(self, a: float, b: float) -> None:
        self.a, self.b = a, b

    def in_units(self, delta: tf.Tensor) -> tf.Tensor:
        return delta

    def log_evidence(self, solution: Solution) -> tf.Tensor:
        a, b = self.posterior(solution)
        constant = self.a * math.log(self.b) - math.lgamma(self.a) + math.lgamma(a)
        return _volume(solution) + tf.reduce_sum(constant - a * tf.math.log(b))

    def posterior(self, solution: Solution) -> tuple[float, tf.Tensor]:
        """a, and b of each output, shape (F,)."""
        return self.a + 0.5 * solution.num_data, self.b + 0.5 * solution.residual

    def variance(self, solution: Solution) -> np.ndarray:
        a, b = self.posterior(solution)
        return b.numpy() / (a - 1.0) if a > 1.0 else np.full(len(b), np.inf)

    def entropy(self, solution: Solution) -> float:
        a, b = self.posterior(solution)
        log_sigma = 0.5 * (np.log(b) - scipy.special.digamma(a))
        return float(np.sum(HALF_LOG_2PI_E + log_sigma))

    def draw(self, solution: Solution, rng: np.random.Generator, num_samples: int) -> np.ndarray:
        a, b = self.posterior(solution)
        return np.sqrt(b / rng.standard_gamma(a, (num_samples, len(b))))

    def predictive(
        self, solution: Solution, mean: np.ndarray, scale: np.ndarray
    ) -> tfp.distributions.Distribution:
        a, b = self.posterior(solution)
        return tfp.distributions.StudentT(2.0 * a, mean, tf.sqrt(b / a) * scale)

    def joint(self, solution: Solution, mean: np.ndarray, root: np.ndarray) -> IndependentOutputs:
        a, b = self.posterior(solution)
        return IndependentOutputs(_by_example(mean), np.sqrt(b.numpy() / a), root, 2.0 * a)

    def likelihood(self) -> Normal:
        return Normal("predicted")

    def outputs(self, means: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        of_each = raw_scale(sigma).reshape(len(sigma), *[1] * (means.ndim - 2), -1)
        raw = np.broadcast_to(of_each, means.shape)
        return np.concatenate([means, raw], axis=-1)


def noise_of(
    sigma_noise: float | None, noise_prior: Sequence[float] | None
) -> KnownNoise | UnknownNoise:
    """The noise that the arguments of a `NeuralLinear` mean.

    Raises:
        ValueError: if one is out of its range.
    """
    if sigma_noise is None:
        return UnknownNoise(
            *(_two_positive(noise_prior) if noise_prior is not None else (1.0, 0.1))
        )
    if noise_prior is not None:
        raise ValueError(
            f"noise_prior={shown(noise_prior)} is for an unknown noise; leave it or sigma_noise out"
        )
    return KnownNoise(positive("sigma_noise", sigma_noise))


def _two_positive(noise_prior: Any) -> list[float]:
    if not isinstance(noise_prior, (list, tuple, np.ndarray)) or len(noise_prior) != 2:
        raise ValueError(f"noise_prior={shown(noise_prior)} must be two positive numbers")
    return [positive("noise_prior", value, "two positive numbers") for value in noise_prior]


def raw_scale(sigma: np.ndarray) -> np.ndarray:
    """The number whose softplus is sigma."""
    return sigma + np.log(-np.expm1(-sigma))


def _by_example(mean: np.ndarray) -> np.ndarray:
    return mean.reshape(len(mean), -1, mean.shape[-1])


def _volume(solution: Solution) -> tf.Tensor:
    """The part of the evidence that all outputs have in common."""
    of_each = solution.log_det_ratio - solution.num_data * math.log(2.0 * math.pi)
    return 0.5 * len(solution.residual) * of_each
