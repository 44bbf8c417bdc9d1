"""Hamiltonian Monte Carlo over all weights and the noise, under a prior of unknown scales.

Nothing is left to choose: the scales are integrated out (`hierarchical_prior`), and the noise is
drawn with the weights.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import hierarchical_prior
import joint_ensemble
import numpy as np
from networks import one_noise, sequential
from uci_split import Split, noise_of

import tfbdl
from tfbdl.inference import HMC, MCMC, LogPosterior, rhat
from tfbdl.likelihoods import Normal
from tfbdl.predictive import Prediction

LENGTH = 0.5
"""Of a trajectory, unless it comes to `max_leapfrog_steps` before."""


def hmc(data: Split, args: argparse.Namespace) -> tuple[Prediction, dict[str, Any]]:
    """Chains from networks that were trained for a fifth of the steps of other methods."""
    model, likelihood = sequential(one_noise(args), data), Normal("predicted")
    target = LogPosterior(model, likelihood, hierarchical_prior.prior_of(model), data.x, data.y)
    chains = MCMC(
        target,
        HMC(trajectory_length=LENGTH, max_leapfrog_steps=args.max_leapfrog_steps),
        num_warmup=args.num_warmup,
        num_samples=args.num_samples,
        num_chains=args.num_chains,
        initial=_starts(data, args),
        seed=args.seed,
        verbose=0,
    ).run()
    found = tfbdl.predict(chains.ensemble(), data.x_test, args.S, return_samples=True, verbose=0)
    values = chains.outputs(data.x_test[:100])[..., 0]
    return found, {
        "gradients": int(chains.draws.num_gradients.sum()),
        "accept_prob": float(chains.draws.accept_prob.mean()),
        "rhat_of_functions": float(np.max(rhat(values))),
        "noise": noise_of(found),
    }


def _starts(data: Split, args: argparse.Namespace) -> np.ndarray:
    """Networks trained until they fit, shape (C, D)."""
    trained = joint_ensemble.members(one_noise, args.num_chains, data, args)
    number = args.steps // 5 // max(len(data.x) // args.batch_size, 1)
    return next(itertools.islice(trained, number, None))
