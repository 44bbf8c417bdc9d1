"""The lecture's table at the size of two cores: how near are methods to the posterior?

    python tutorials/posterior_table.py
    python tutorials/posterior_table.py --data digits --n_epochs 20 --samples 100 --seeds 2

Izmailov et al. (2021) ran Hamiltonian Monte Carlo on ResNet-20 until it converged, on 512 TPUs, and
held other methods against it. Here a network is so small that chains converge on two cores: the
tutorial's 1,000 images, as means over 2x2 pixels, 196-50-10 with tanh and the prior N(0, 1)
(`posterior/problems.py`). All methods have its likelihood and its prior, at temperature 1, and

    agreement        share of test images for which method and reference predict the same class
    total variation  mean over test images of 1/2 sum_c |p_c - reference_c|

say how near they are; for HMC, each chain is held against the others. A method and seed is one file
in `runs/`, whole or not there; a second call goes on, and so do the chains.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import common

sys.path.insert(0, str(Path(common.__file__).parent / "posterior"))

import methods
import numpy as np
import problems
from distances import COLUMNS, figure, scores, table
from problems import Problem
from records import kept
from reference import Reference, reference
from running import Method, Posterior, Run, predicted, slug

from tfbdl.data import load
from tfbdl.optimizers import SGHMC, SGLD, PreconditionedSGHMC, PreconditionedSGLD


def sampler(optimizer: Any, factor: float, cyclical: bool, problem: Problem, run: Run) -> Posterior:
    """Samples by stochastic gradients, at `factor` times the problem's learning rate."""
    rate: Any = factor * problem.rate
    rate = methods.cycles(rate, run) if cyclical else rate
    made = optimizer(rate, num_data=problem.num_data, prior=1.0, seed=run.seed)
    return methods.stochastic_gradients(problem, made, run)


METHODS: dict[str, Method] = {
    "MFVI": methods.mean_field,
    "SGLD": partial(sampler, SGLD, 1.0, False),
    "SGHMC": partial(sampler, SGHMC, 0.3, False),
    "SGHMC CLR": partial(sampler, SGHMC, 1.0, True),
    "SGHMC CLR-Prec": partial(sampler, PreconditionedSGHMC, 0.01, True),
    "SGHMC Prec": partial(sampler, PreconditionedSGHMC, 0.003, False),
    "SGLD Prec": partial(sampler, partial(PreconditionedSGLD, epsilon=3e-3), 0.003, False),
    "Laplace, Kronecker": partial(methods.laplace, structure="kron"),
    "Laplace, last layer": partial(methods.laplace, subset="last_layer", structure="full"),
    "MC dropout": methods.mc_dropout,
    "Concrete dropout": methods.concrete_dropout,
    "deep ensemble": methods.deep_ensemble,
    "SWAG": partial(methods.swag, rate=1.0),
    "MAP": methods.mode,
}


def of_chains(found: Reference, y: np.ndarray) -> list[dict[str, float]]:
    """The scores of each chain, held against the others; seconds are those of all."""
    seconds = {"seconds": float(found.seconds)}
    return [scores(p, found.others(c), y) | seconds for c, p in enumerate(found.p)]


def of_method(
    name: str, args: argparse.Namespace, problem: Problem, found: Reference, test: Any
) -> list[dict[str, float]]:
    """The scores of each seed."""
    records = []
    for seed in range(args.seeds):
        folder = args.savedir / "runs" / f"{slug(name)}_{seed}"

        def measure(folder: Path = folder, seed: int = seed) -> dict[str, float]:
            shutil.rmtree(folder, ignore_errors=True)  # of a run that was stopped
            started = time.perf_counter()
            posterior = METHODS[name](problem, run_of(args, seed, folder))
            seconds = time.perf_counter() - started
            p = predicted(posterior, test[0], args.S).mean
            return scores(p, found.mean, test[1]) | {"seconds": seconds}

        settings = common.configuration(args, "seeds") | {"seed": seed}
        record = kept(folder.with_suffix(".json"), settings, measure)
        records.append({column: record[column] for column in COLUMNS})
        cells = ", ".join(f"{column} {value:.4g}" for column, value in records[-1].items())
        print(f"{name}, seed {seed}: {cells}", flush=True)
    return records


def run_of(args: argparse.Namespace, seed: int, folder: Path) -> Run:
    return Run(args.n_epochs, args.samples, args.chains, seed, folder)


def main_table(args: argparse.Namespace) -> None:
    data = common.images(args)
    problem = problems.digits(problems.pooled(data.x_train), data.y_train, args.units)
    full = load(args.data, "full", directory=args.mnist_path)
    test = problems.pooled(common.flat(full.x_test)), full.y_test
    args.savedir.mkdir(parents=True, exist_ok=True)
    folder = args.savedir / "runs" / "hmc"
    run = run_of(args, args.seed, folder)
    found = reference(problem, test[0], run, args.savedir / "runs" / "reference.npz")
    print(f"HMC: R-hat of the predictions at most {found.rhat[0]:.3f}", flush=True)
    rows = {"HMC": of_chains(found, test[1])}
    for name in METHODS:
        rows[name] = of_method(name, args, problem, found, test)
    common.write_text(args.savedir / "posterior_table.md", table(rows, found))
    common.write_metrics(
        args.savedir, args, rhat=found.rhat.tolist(), **{slug(name): r for name, r in rows.items()}
    )
    common.write_figure(figure(rows), args.savedir / "posterior_table.png")


def parser() -> argparse.ArgumentParser:
    parser = common.arguments("How near to the posterior?", "posterior_table", n_epochs=200)
    parser.add_argument("--units", type=int, default=50, help="of the hidden layer")
    parser.add_argument("--samples", type=int, default=500, help="of each chain, and its warm-up")
    parser.add_argument("--chains", type=int, default=4, help="number of Markov chains")
    parser.add_argument("--seeds", type=int, default=3, help="of the other methods")
    parser.add_argument("--S", type=int, default=200, help="drawn functions a prediction")
    return parser


def main() -> None:
    common.run(parser(), main_table)


if __name__ == "__main__":
    main()
