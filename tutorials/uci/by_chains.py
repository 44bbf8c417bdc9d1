"""Hamiltonian Monte Carlo over all weights and the noise, under a prior of unknown scales.

Nothing is left to choose: the scales are integrated out (`hierarchical_prior`), and the noise is
drawn with the weights.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import numpy as np

import tfbdl
from tfbdl.inference import HMC, MCMC, rhat
from tfbdl.likelihoods import Normal
from tfbdl.predictive import Prediction
from tutorials.uci import hierarchical_prior, joint_ensemble
from tutorials.uci.networks import one_noise, sequential
from tutorials.uci.split import Split, noise_of

LENGTH = 0.5
"""The length of a trajectory, unless it comes to `max_leapfrog_steps` before."""


def hmc(data: Split, args: argparse.Namespace) -> tuple[Prediction, dict[str, Any]]:
    """Chains from networks that were trained for a fifth of the steps of other methods."""
    model = sequential(one_noise(args), data)
    chains = MCMC(
        model,
        hierarchical_prior.prior_of(model),
        likelihood=Normal("predicted"),
        kernel=HMC(trajectory_length=LENGTH, max_leapfrog_steps=args.max_leapfrog_steps),
        num_warmup=args.num_warmup,
        num_samples=args.num_samples,
        num_chains=args.num_chains,
        initial=_starts(data, args),
        seed=args.seed,
    ).fit(data.x, data.y, verbose=0)
    prediction = tfbdl.predict(
        chains, data.x_test, args.S, seed=args.seed, return_samples=True, verbose=0
    )
    values = chains.outputs(data.x_test[:100])[..., 0]
    return prediction, {
        "gradients": int(chains.draws.num_gradients.sum()),
        "accept_prob": float(chains.draws.accept_prob.mean()),
        "rhat_of_functions": float(np.max(rhat(values))),
        "noise": noise_of(prediction),
    }


def _starts(data: Split, args: argparse.Namespace) -> np.ndarray:
    """Networks trained until they fit, shape (C, D)."""
    trained = joint_ensemble.members(one_noise, args.num_chains, data, args)
    number = args.steps // 5 // max(len(data.x) // args.batch_size, 1)
    return next(itertools.islice(trained, number, None))
