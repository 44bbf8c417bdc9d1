"""Posterior inference: one posterior, and what ten methods make of it.

    python tutorials/posterior_inference.py --mode train
    python tutorials/posterior_inference.py --mode test
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
import numpy as np
import problems
import sparse_mode
from methods import Method, Posterior, Run
from problems import Problem

from tfbdl.data import gapped_sine
from tfbdl.optimizers import SGHMC, SGLD

PROBLEMS = {"regression": problems.regression, "two_classes": problems.two_classes}
TEST_POINTS = 2000


def by_chains(name: str, problem: Problem, run: Run) -> Posterior:
    """The samples of Markov chains."""
    return chains.sample(problem, name, run).ensemble()


def by_gradients(sampler: Any, problem: Problem, run: Run) -> Posterior:
    """The samples of a stochastic gradient method."""
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
    "MAP": lambda problem, run: methods.mode(problem, run).model,
}


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Posterior inference.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--N", type=int, default=30, help="points of the problems; twice for classes"
    )
    parser.add_argument("--n_epochs", type=int, default=400, help="epochs, of 500 steps")
    parser.add_argument("--steps", type=int, default=1000, help="of chains: warm-up, and samples")
    parser.add_argument("--chains", type=int, default=4, help="number of Markov chains")
    parser.add_argument("--S", type=int, default=1000, help="drawn functions a prediction")
    parser.add_argument(
        "--savedir", type=Path, default=Path("runs/posterior_inference"), help="output folder"
    )
    parser.add_argument("--seed", type=int, default=0, help="of data, weights, noise and order")
    return parser


def given(name: str, args: argparse.Namespace) -> Problem:
    """The data and the model of a problem."""
    return PROBLEMS[name](args.N if name == "regression" else 2 * args.N, args.seed)


def run_of(args: argparse.Namespace, *parts: str) -> Run:
    """How long, and in which folder."""
    names = [part.lower().replace(" ", "_").replace(",", "") for part in parts]
    return Run(args.n_epochs, args.steps, args.chains, args.seed, args.savedir.joinpath(*names))


def posteriors(name: str, args: argparse.Namespace) -> dict[str, Posterior]:
    """What each method finds; read from the output folder where it has been found."""
    problem, found = given(name, args), {}
    for method, infer in METHODS.items():
        if method == "neural linear" and name == "two_classes":
            continue  # no conjugate prior
        print(f"==> {name}: {method}", flush=True)
        found[method] = infer(problem, run_of(args, name, method))
    return found


def train(args: argparse.Namespace) -> None:
    for name in PROBLEMS:
        posteriors(name, args)
    sparse_mode.measure(run_of(args, "sparse_mode"))
    test(args)


def test(args: argparse.Namespace) -> None:
    """Test densities in nats a point, distances from the chains, and whether these agree."""
    rows: dict[str, Any] = {}
    for name in PROBLEMS:
        found = posteriors(name, args)
        rows[name] = {method: density(name, found[method], args) for method in found}
        if name == "regression":
            extra = bands.spreads(bands.on_line(found, args.S))
        else:
            extra = bands.distances(bands.on_plane(found, args.S))
        rows[name] = {method: row | extra[method] for method, row in rows[name].items()}
    rows["chains"] = {
        name: chains.diagnostics(chains.sample(given("regression", args), name, run))
        for name, run in chain_runs(args).items()
    }
    rows["laplace_steps"] = {"one weight": laplace_steps.measure()}
    rows["sparse_mode"] = {"Laplace prior": sparse_mode.measure(run_of(args, "sparse_mode"))}
    for part, table in rows.items():
        print(f"==> {part}")
        for name, row in table.items():
            cells = ", ".join(f"{column} {value:.4g}" for column, value in row.items())
            print(f"test: {name}: {cells}", flush=True)
    common.write_metrics(args.savedir, args, **rows)


def density(name: str, posterior: Posterior, args: argparse.Namespace) -> dict[str, float]:
    """Mean log p(y | x, D) of new points, in nats."""
    draw = gapped_sine if name == "regression" else problems.two_moons
    x, y = draw(TEST_POINTS, args.seed + 1)
    found = methods.predicted(posterior, x, args.S, functions=True)
    if name == "regression":
        return {"test log density": float(found.log_prob(y).mean())}
    p = np.where(y == 1, found.mean, 1 - found.mean)
    return {
        "test log density": float(np.log(np.maximum(p, 1e-12)).mean()),
        "accuracy": float((p > 0.5).mean()),
    }


def chain_runs(args: argparse.Namespace) -> dict[str, Run]:
    """Those of the regression's chains."""
    return {name: run_of(args, "regression", name) for name in chains.KERNELS}


def visualize(args: argparse.Namespace) -> None:
    problem = given("regression", args)
    lines = bands.on_line(posteriors("regression", args), args.S)
    surfaces = bands.on_plane(posteriors("two_classes", args), args.S)
    walks = {name: chains.sample(problem, name, run) for name, run in chain_runs(args).items()}
    made = {
        "regression": bands.regression(problem, lines),
        "two_classes": bands.two_classes(given("two_classes", args), surfaces),
        "chains": chains.figure(walks),
        "laplace_steps": laplace_steps.figure(),
        "sparse_mode": sparse_mode.figure(run_of(args, "sparse_mode")),
    }
    for name, figure in made.items():
        common.write_figure(figure, args.savedir / f"{name}.png")


def main() -> None:
    common.run_mode(parser(), train=train, test=test, visualize=visualize)


if __name__ == "__main__":
    main()
