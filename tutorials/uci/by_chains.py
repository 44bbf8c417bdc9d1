"""Hamiltonian Monte Carlo over all weights and the noise, under a prior of unknown scales.

Nothing is left to choose: the scales are integrated out (`hierarchical_prior`), and the noise is
drawn with the weights. Variants change one part each, to tell whose fault a bad score is.
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
from tutorials.uci.by_training import weight_decay
from tutorials.uci.networks import one_noise, plain, sequential
from tutorials.uci.split import Split, noise_of

Outcome = tuple[Prediction, dict[str, Any]]

LENGTH = 0.5
"""The length of a trajectory, unless it comes to `max_leapfrog_steps` before."""
LONGER = 4
"""How many times as many trajectories the longer chains have."""


def hmc(data: Split, args: argparse.Namespace) -> Outcome:
    """With a scale for each input, and a noise that is learned."""
    return sampled(data, args)


def longer(data: Split, args: argparse.Namespace) -> Outcome:
    """Chains that have had the time to meet."""
    more = {name: LONGER * getattr(args, name) for name in ("num_warmup", "num_samples")}
    return sampled(data, argparse.Namespace(**{**vars(args), **more}))


def one_scale(data: Split, args: argparse.Namespace) -> Outcome:
    """One scale for all inputs."""
    return sampled(data, args, scale_of_input=False)


def known_noise(data: Split, args: argparse.Namespace) -> Outcome:
    """The noise that weight decay leaves on held-out data."""
    _, chosen = weight_decay(data, args)
    return sampled(data, args, noise=chosen["noise"])


VARIANTS = {"hmc": hmc, "longer": longer, "one_scale": one_scale, "known_noise": known_noise}


def sampled(
    data: Split,
    args: argparse.Namespace,
    *,
    scale_of_input: bool = True,
    noise: float | None = None,
) -> Outcome:
    """Chains from networks that were trained for a fifth of the steps of other methods."""
    model = sequential((one_noise if noise is None else plain)(args), data)
    chains = MCMC(
        model,
        hierarchical_prior.prior_of(model, scale_of_input=scale_of_input),
        likelihood=Normal("predicted" if noise is None else noise),
        kernel=HMC(trajectory_length=LENGTH, max_leapfrog_steps=args.max_leapfrog_steps),
        num_warmup=args.num_warmup,
        num_samples=args.num_samples,
        num_chains=args.num_chains,
        initial=_starts(data, args)[:, : model.count_params()],
        seed=args.seed,
    ).fit(data.x, data.y, verbose=0)
    drawn = {"seed": args.seed, "return_samples": True, "verbose": 0}
    prediction = tfbdl.predict(chains, data.x_test, args.S, **drawn)
    values = chains.outputs(data.x_test[:100])[..., 0]
    return prediction, {
        "gradients": int(chains.draws.num_gradients.sum()),
        "accept_prob": float(chains.draws.accept_prob.mean()),
        "rhat_of_functions": float(np.max(rhat(values))),
        "noise": noise_of(prediction),
    }


def _starts(data: Split, args: argparse.Namespace) -> np.ndarray:
    """Networks trained until they fit, with the noise behind the weights, shape (C, D)."""
    trained = joint_ensemble.members(one_noise, args.num_chains, data, args)
    number = args.steps // 5 // max(len(data.x) // args.batch_size, 1)
    return next(itertools.islice(trained, number, None))
