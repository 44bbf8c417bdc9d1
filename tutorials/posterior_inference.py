"""Posterior inference: one posterior, and what twelve methods make of it.

    python tutorials/posterior_inference.py --mode train
    python tutorials/posterior_inference.py --mode test       # the same, from what is there
    python tutorials/posterior_inference.py --mode visualize

A regression in one dimension and two classes in the plane, each with one network, one likelihood
and the prior N(0, 1) (`posterior/problems.py`), so that all methods (`posterior/methods.py`)
approximate the same p(w | y, x):

    MAP                       argmax log p(y | x, w) + log p(w), the mode
    Metropolis-Hastings       w* ~ N(w, a^2), taken with probability min(1, p(y, w*) / p(y, w))
    Hamiltonian Monte Carlo   w* by trajectories v += a grad log p(w | y, x), w += a' v
    Langevin dynamics         one step of them, adjusted by that test or not
    SGLD, SGHMC               the same with gradients of batches
    mean-field VI             argmin KL(q(w; phi) || p(w | y, x)) over normal q of single weights
    Laplace                   N(w*, H^-1), the curvature at the mode
    neural linear             exact in the last layer, for normal noise
    MC dropout, ensembles     functions of training, not of a posterior that they follow

And: the four steps of Laplace's approximation (`posterior/laplace_steps.py`), whether chains have
arrived (`posterior/chains.py`), and why the mode is not the posterior (`posterior/sparse_mode.py`).
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

import common

sys.path[:0] = [str(Path(common.__file__).parent / name) for name in ("posterior", "priors")]

import bands
import chains
import laplace_steps
import methods
import problems
import sparse_mode
from problems import Problem
from running import Method, Posterior, Run, slug

from tfbdl.inference import MCMC
from tfbdl.optimizers import SGHMC, SGLD

PROBLEMS = {
    "regression": (problems.regression, bands.measure_regression, bands.regression),
    "two_classes": (problems.two_classes, bands.measure_two_classes, bands.two_classes),
}
"""The problem, its numbers, its figure."""


def by_chains(name: str, problem: Problem, run: Run) -> Posterior:
    """Samples of Markov chains."""
    return methods.markov_chains(problem, *chains.KERNELS[name], run)


def by_gradients(sampler: Any, problem: Problem, run: Run) -> Posterior:
    """Samples by stochastic gradients."""
    optimizer = sampler(problem.rate, num_data=problem.num_data, prior=1.0, seed=run.seed)
    return methods.stochastic_gradients(problem, optimizer, run)


METHODS: dict[str, Method] = {
    **{name: partial(by_chains, name) for name in chains.KERNELS},
    "SGLD": partial(by_gradients, SGLD),
    "SGHMC": partial(by_gradients, SGHMC),
    "mean-field VI": methods.mean_field,
    "MC dropout": methods.mc_dropout,
    "Laplace": methods.laplace,
    "neural linear": methods.neural_linear,
    "deep ensemble": methods.deep_ensemble,
    "MAP": methods.mode,
}


def parser() -> argparse.ArgumentParser:
    parser = common.toy_arguments("Posterior inference.", "posterior_inference", N=30, S=1000)
    parser.add_argument("--n_epochs", type=int, default=400, help="epochs, of 500 steps")
    parser.add_argument("--steps", type=int, default=1000, help="of chains: warm-up, and samples")
    parser.add_argument("--chains", type=int, default=4, help="number of Markov chains")
    return parser


def run_of(args: argparse.Namespace, *parts: str) -> Run:
    """How long, and in which folder."""
    folder = args.savedir.joinpath(*map(slug, parts))
    return Run(args.n_epochs, args.steps, args.chains, args.seed, folder)


def posteriors(name: str, args: argparse.Namespace) -> dict[str, Posterior]:
    """What each method makes of a problem; what the output folder has is read."""
    problem, found = PROBLEMS[name][0](args.N, args.seed), {}
    for method, infer in METHODS.items():
        if method == "neural linear" and name == "two_classes":
            continue  # it has no conjugate prior
        print(f"==> {name}: {method}", flush=True)
        found[method] = infer(problem, run_of(args, name, method))
    return found


def test(args: argparse.Namespace) -> None:
    """Numbers of all parts."""
    rows: dict[str, Any] = {}
    for name, (_, measure, _) in PROBLEMS.items():
        found = posteriors(name, args)
        rows[name] = measure(found, args.S, args.seed)
        if name == "regression":
            rows["chains"] = {n: chains.diagnostics(c) for n, c in markov_chains(found).items()}
    rows["laplace_steps"] = {"one weight": laplace_steps.measure()}
    rows["sparse_mode"] = {"Laplace's prior": sparse_mode.measure(run_of(args, "sparse_mode"))}
    for part, table in rows.items():
        print(f"==> {part}")
        for name, row in table.items():
            cells = ", ".join(f"{column} {value:.4g}" for column, value in row.items())
            print(f"test: {name}: {cells}", flush=True)
    common.write_metrics(args.savedir, args, **rows)


def markov_chains(found: dict[str, Posterior]) -> dict[str, MCMC]:
    """Those methods that are chains."""
    return {name: posterior for name, posterior in found.items() if isinstance(posterior, MCMC)}


def visualize(args: argparse.Namespace) -> None:
    made = {}
    for name, (problem, _, picture) in PROBLEMS.items():
        found = posteriors(name, args)
        made[name] = picture(problem(args.N, args.seed), found, args.S)
        if name == "regression":
            made["chains"] = chains.figure(markov_chains(found))
    made["laplace_steps"] = laplace_steps.figure()
    made["sparse_mode"] = sparse_mode.figure(run_of(args, "sparse_mode"))
    for name, figure in made.items():
        common.write_figure(figure, args.savedir / f"{name}.png")


def main() -> None:
    common.run_mode(parser(), train=test, test=test, visualize=visualize)


if __name__ == "__main__":
    main()
