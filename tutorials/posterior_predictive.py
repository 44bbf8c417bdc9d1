"""The lecture's posterior predictive: Hamiltonian Monte Carlo over the weights of a small network.

    w ~ N(0, sigma^2 = 5) for each weight and bias,   sigma_0 ~ Gamma(1/2, 1),
    y ~ N(f(x; W_1, W_2, W_3), sigma_0^2),

    p(y* | x*, D) = int p(y* | x*, w, sigma_0) p(w, sigma_0 | D) dw dsigma_0,

with f a network of two hidden layers of tanh units, and the integral a mean over the states of
several Markov chains. The chains run over theta = (w, log sigma_0), where nothing is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.special
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

tfd = tfp.distributions
tf.get_logger().setLevel("ERROR")  # TFP's effective_sample_size casts complex numbers on purpose

SHAPES = ((1, 10), (1, 10), (10, 10), (1, 10), (10, 1), (1, 1))
"""Kernel and bias of each layer."""
NUM_WEIGHTS = sum(math.prod(shape) for shape in SHAPES)
WEIGHT_PRIOR = tfd.Normal(0.0, math.sqrt(5.0))
NOISE_PRIOR = tfd.Gamma(0.5, 1.0)


class Chains(NamedTuple):
    """What Hamiltonian Monte Carlo leaves.

    Attributes:
        w: weights, shape (S, C, W): S states of each of C chains.
        sigma0: the noise's standard deviation, shape (S, C).
        acceptance: mean acceptance probability of each chain, shape (C,).
        step_size: of each chain's leapfrog steps, shape (C,).
    """

    w: np.ndarray
    sigma0: np.ndarray
    acceptance: np.ndarray
    step_size: np.ndarray


def function(w: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """f(x; w), shape (C, N), for weights of shape (C, W) and x of shape (N, 1)."""
    parts = tf.split(w, [math.prod(shape) for shape in SHAPES], axis=-1)
    arrays = [tf.reshape(p, (-1, *shape)) for p, shape in zip(parts, SHAPES, strict=True)]
    h = x
    for layer, (kernel, bias) in enumerate(zip(arrays[::2], arrays[1::2], strict=True)):
        h = h @ kernel + bias
        h = tf.tanh(h) if layer < 2 else h
    return h[..., 0]


def log_joint(x: np.ndarray, y: np.ndarray) -> Callable[[tf.Tensor], tf.Tensor]:
    """Log p(y, theta | x) in nats of each chain, shape (C,), as a function of theta (C, W + 1).

    The density of log sigma_0 is that of sigma_0 times dsigma_0 / dlog sigma_0 = sigma_0.
    """

    def target(theta: tf.Tensor) -> tf.Tensor:
        w, log_sigma0 = theta[:, :-1], theta[:, -1]
        sigma0 = tf.exp(log_sigma0)
        likelihood = tfd.Normal(function(w, x), sigma0[:, None]).log_prob(y[:, 0])
        prior = tf.reduce_sum(WEIGHT_PRIOR.log_prob(w), axis=-1)
        prior += NOISE_PRIOR.log_prob(sigma0) + log_sigma0
        return tf.reduce_sum(likelihood, axis=-1) + prior

    return target


def sample(
    x: np.ndarray,
    y: np.ndarray,
    *,
    num_chains: int = 4,
    num_warmup: int = 1000,
    num_samples: int = 1000,
    num_leapfrog_steps: int = 500,
    seed: int = 0,
) -> Chains:
    """States of chains that start at draws of w from the prior; step sizes adapt in the warm-up.

    Args:
        x: inputs, shape (N, 1).
        y: targets, shape (N, 1).
        num_chains: C.
        num_warmup: steps whose states are dropped.
        num_samples: S, the steps after it.
        num_leapfrog_steps: of each step; at step sizes near 0.002 a trajectory of 500 crosses half
            the prior's standard deviation.
        seed: of the start and of the steps.
    """
    start, steps = tfp.random.split_seed([seed, 0])
    w = WEIGHT_PRIOR.sample((num_chains, NUM_WEIGHTS), seed=start)
    kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(
        tfp.mcmc.HamiltonianMonteCarlo(
            log_joint(x, y), tf.fill([num_chains, 1], 1e-3), num_leapfrog_steps
        ),
        num_adaptation_steps=int(0.8 * num_warmup),
        target_accept_prob=0.8,
    )

    @tf.function(jit_compile=True)
    def run() -> tuple[tf.Tensor, tuple[tf.Tensor, tf.Tensor]]:
        return tfp.mcmc.sample_chain(
            num_samples,
            tf.concat([w, tf.zeros([num_chains, 1])], axis=-1),
            kernel=kernel,
            num_burnin_steps=num_warmup,
            trace_fn=lambda _, k: (k.inner_results.log_accept_ratio, k.new_step_size),
            seed=steps,
        )

    theta, log_ratio, step_size = (part.numpy() for part in tf.nest.flatten(run()))
    accepted = np.exp(np.minimum(log_ratio, 0.0)).mean(axis=0)
    return Chains(theta[..., :-1], np.exp(theta[..., -1]), accepted, step_size[-1, :, 0])


def functions(chains: Chains, x: np.ndarray) -> np.ndarray:
    """f(x; w) at every state, shape (S, C, N)."""
    return np.stack([function(tf.constant(w), x).numpy() for w in chains.w])


def draws_of_y(chains: Chains, x: np.ndarray, seed: int) -> np.ndarray:
    """y* ~ N(f(x; w), sigma_0^2), one at every state, shape (S C, N)."""
    noise = np.random.default_rng(seed).standard_normal((*chains.sigma0.shape, len(x)))
    y = functions(chains, x) + chains.sigma0[..., None] * noise
    return y.reshape(-1, len(x))


def log_density(chains: Chains, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log p(y | x, D), the mean over states of p(y | x, w, sigma_0), shape (N,), in nats."""
    logs = scipy.stats.norm.logpdf(y[:, 0], functions(chains, x), chains.sigma0[..., None])
    return scipy.special.logsumexp(logs, axis=(0, 1)) - np.log(chains.sigma0.size)


def diagnostics(chains: Chains, x: np.ndarray) -> dict[str, float]:
    """Whether the chains agree on what can be told apart: functions at x, and the noise.

    The weights themselves cannot agree: units change places and signs without any change of f.
    """
    quantities = np.concatenate([functions(chains, x), chains.sigma0[..., None]], axis=-1)
    rhat = tfp.mcmc.potential_scale_reduction(quantities, split_chains=True)
    size = tfp.mcmc.effective_sample_size(quantities, cross_chain_dims=1)
    return {
        "acceptance": float(chains.acceptance.mean()),
        "step_size": float(chains.step_size.mean()),
        "largest_rhat": float(np.max(rhat)),
        "smallest_ess": float(np.min(size)),
        "sigma0": float(chains.sigma0.mean()),
    }
