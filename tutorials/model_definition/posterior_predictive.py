"""The lecture's posterior predictive: Hamiltonian Monte Carlo over the weights of a small network.

    w ~ N(0, sigma^2 = 5) for each weight and bias,   sigma_0 ~ Gamma(1/2, 1),
    y ~ N(f(x; W_1, W_2, W_3), sigma_0^2),

    p(y* | x*, D) = int p(y* | x*, w, sigma_0) p(w, sigma_0 | D) dw dsigma_0,

with f a network of two hidden layers of tanh units, and the integral a mean over the states of
several Markov chains.
"""

from __future__ import annotations

import math
from pathlib import Path

import keras
import numpy as np

from tfbdl.inference import HMC, MCMC
from tfbdl.layers import LearnedScale
from tfbdl.likelihoods import Normal
from tfbdl.priors import GammaScale

SIGMA = math.sqrt(5.0)
"""Scale of the prior of weights and biases, N(0, sigma^2 = 5)."""
UNITS = 10


def network() -> keras.Model:
    """The network 1-10-10-1, whose last layer holds sigma_0 as a weight."""
    hidden = [keras.layers.Dense(UNITS, "tanh") for _ in range(2)]
    last = [keras.layers.Dense(1), LearnedScale(name="sigma_0")]
    return keras.Sequential([keras.Input((1,)), *hidden, *last])


def sample(
    x: np.ndarray,
    y: np.ndarray,
    *,
    num_warmup: int = 1000,
    num_samples: int = 1000,
    savedir: Path | None = None,
    seed: int = 0,
) -> MCMC:
    """Four chains that start at draws from the prior; those that `savedir` has are read.

    Step sizes come out near 0.002, so that trajectories have hundreds of steps. Their mean length
    of 1 crosses half the prior's standard deviation.

    Args:
        x: inputs, shape (N, 1).
        y: targets, shape (N, 1).
        num_warmup: steps whose states are dropped.
        num_samples: S, the steps after it.
        savedir: folder of the states.
        seed: the seed of start and steps.
    """
    chains = MCMC(
        network(),
        prior={"*": SIGMA, "sigma_0": GammaScale(0.5, 1.0)},
        likelihood=Normal("predicted"),
        kernel=HMC(trajectory_length=1.0),
        num_warmup=num_warmup,
        num_samples=num_samples,
        seed=seed,
    )
    return chains.fit(x, y, savedir=savedir)


def diagnostics(chains: MCMC, x: np.ndarray) -> dict[str, float]:
    """Whether the chains agree on what can be told apart: functions at x, and the noise.

    The weights themselves cannot agree: units change places and signs without any change of f.
    """
    summary = chains.summary(x)
    outputs = summary.quantities["f(x)"]
    raw_scale = chains.outputs(x[:1])[..., 0, 1]
    return {
        "acceptance": float(summary.accept_prob.mean()),
        "step_size": float(summary.step_size.mean()),
        "largest_rhat": float(outputs.rhat.max()),
        "smallest_ess": float(min(outputs.ess_bulk.min(), outputs.ess_tail.min())),
        "sigma0": float(np.logaddexp(raw_scale, 0.0).mean()),
    }
