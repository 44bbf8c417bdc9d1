"""Posterior inference: one posterior, and what twelve methods make of it.

    python -m tutorials.posterior_inference --mode train
    python -m tutorials.posterior_inference --mode test       # the same, from what is there
    python -m tutorials.posterior_inference --mode visualize

A regression in one dimension and two classes in the plane, each with one network, one likelihood
and the prior N(0, 1) (`problems`), so that all `methods` approximate the same p(w | y, x):

    MAP                       argmax log p(y | x, w) + log p(w), the mode
    Metropolis-Hastings       w* ~ N(w, a^2), taken with probability min(1, p(y, w*) / p(y, w))
    Hamiltonian Monte Carlo   w* by trajectories v += a grad log p(w | y, x), w += a' v
    Langevin dynamics         one step of them, adjusted by that test or not
    SGLD, SGHMC               the same with gradients of batches
    mean-field VI             argmin KL(q(w; phi) || p(w | y, x)) over normal q of single weights
    Laplace                   N(w*, H^-1), the curvature at the mode
    neural linear             exact in the last layer, for normal noise
    MC dropout, ensembles     functions of training, not of a posterior that they follow

And: the four steps of Laplace's approximation (`laplace_steps`), whether `chains` have
arrived, and why the mode is not the posterior (`sparse_mode`).
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
from functools import partial
from typing import Any

from tutorials import commands, run_files
from tutorials.posterior_inference import (
    bands,
    chains,
    laplace_steps,
    methods,
    problems,
    sparse_mode,
)
from tutorials.posterior_inference.problems import Problem
from tutorials.posterior_inference.running import Method, Posterior, Run, slug

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
    "SGLD": partial(by_gradients, tfbdl.optimizers.SGLD),
    "SGHMC": partial(by_gradients, tfbdl.optimizers.SGHMC),
    "mean-field VI": methods.mean_field,
    "MC dropout": methods.mc_dropout,
    "Laplace": methods.laplace,
    "neural linear": methods.neural_linear,
    "deep ensemble": methods.deep_ensemble,
    "MAP": methods.mode,
}


def parser() -> argparse.ArgumentParser:
    parser = commands.toy_parser("posterior_inference", "Posterior inference.", N=30, S=1000)
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
    problem, inferred = PROBLEMS[name][0](args.N, args.seed), {}
    for method, infer in METHODS.items():
        if method == "neural linear" and name == "two_classes":
            continue  # it has no conjugate prior
        print(f"==> {name}: {method}", flush=True)
        inferred[method] = infer(problem, run_of(args, name, method))
    return inferred


def test(args: argparse.Namespace) -> None:
    """Numbers of all parts."""
    rows: dict[str, Any] = {}
    for name, (_, measure, _) in PROBLEMS.items():
        inferred = posteriors(name, args)
        rows[name] = measure(inferred, args.S, args.seed)
        if name == "regression":
            rows["chains"] = {n: chains.diagnostics(c) for n, c in markov_chains(inferred).items()}
    rows["laplace_steps"] = {"one weight": laplace_steps.measure()}
    rows["sparse_mode"] = {"Laplace's prior": sparse_mode.measure(run_of(args, "sparse_mode"))}
    for part, table in rows.items():
        print(f"==> {part}")
        for name, row in table.items():
            cells = ", ".join(f"{column} {value:.4g}" for column, value in row.items())
            print(f"test: {name}: {cells}", flush=True)
    run_files.write_metrics(args, **rows)


def markov_chains(inferred: dict[str, Posterior]) -> dict[str, tfbdl.inference.MCMC]:
    """The methods that are chains."""
    return {
        name: posterior
        for name, posterior in inferred.items()
        if isinstance(posterior, tfbdl.inference.MCMC)
    }


def visualize(args: argparse.Namespace) -> None:
    made = {}
    for name, (problem, _, picture) in PROBLEMS.items():
        inferred = posteriors(name, args)
        made[name] = picture(problem(args.N, args.seed), inferred, args.S)
        if name == "regression":
            made["chains"] = chains.figure(markov_chains(inferred))
    made["laplace_steps"] = laplace_steps.figure()
    made["sparse_mode"] = sparse_mode.figure(run_of(args, "sparse_mode"))
    for name, figure in made.items():
        run_files.write_figure(figure, args.savedir / f"{name}.png")


def main() -> None:
    commands.run_modes(parser(), train=test, test=test, visualize=visualize)


if __name__ == "__main__":
    main()
