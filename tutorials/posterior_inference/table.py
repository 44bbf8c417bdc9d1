"""The lecture's table at the size of two cores: how near are methods to the posterior?

    python -m tutorials.posterior_inference.table
    python -m tutorials.posterior_inference.table --data digits --n_epochs 20 --seeds 2

Izmailov et al. (2021) ran Hamiltonian Monte Carlo on ResNet-20 until it converged, on 512 TPUs, and
held other methods against it. Here a network is so small that chains converge on two cores: the
tutorial's 1,000 images, as means over 2x2 pixels, 196-50-10 with tanh and the prior N(0, 1)
(`problems`). All methods have its likelihood and its prior, at temperature 1, and

    agreement        share of test images for which method and reference predict the same class
    total variation  mean over test images of 1/2 sum_c |p_c - reference_c|

say how near they are; for HMC, each chain is held against the others. Each method and
seed is kept as it ends: a second call goes on, and so do the chains.
"""

from __future__ import annotations

import argparse
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tfbdl.inference import MAMS, MCLMC, ChEES
from tfbdl.inference.mcmc.kernels import Kernel
from tfbdl.optimizers import SGHMC, SGLD, PreconditionedSGHMC, PreconditionedSGLD
from tutorials import commands, image_data, run_files
from tutorials.posterior_inference import methods, problems
from tutorials.posterior_inference.distances import COLUMNS, figure, scores, table
from tutorials.posterior_inference.problems import Problem
from tutorials.posterior_inference.reference import Reference, reference
from tutorials.posterior_inference.running import Method, Posterior, Run, predicted, slug
from tutorials.records import RecordFile


def sampler(optimizer: Any, factor: float, cyclical: bool, problem: Problem, run: Run) -> Posterior:
    """Samples by stochastic gradients, at `factor` times the problem's learning rate."""
    rate: Any = factor * problem.rate
    rate = methods.cycles(rate, run) if cyclical else rate
    optimizer = optimizer(rate, num_data=problem.num_data, prior=1.0, seed=run.seed)
    return methods.stochastic_gradients(problem, optimizer, run)


def chains(kernel: Kernel, thinning: int, problem: Problem, run: Run) -> Posterior:
    """Chains as those of the reference, by another kernel."""
    return methods.markov_chains(problem, kernel, thinning, run)


THINNING = 16
"""Microcanonical steps of two gradients a sample: as many as HMC takes."""
METHODS: dict[str, Method] = {
    "ChEES": partial(chains, ChEES(), 1),
    "MAMS": partial(chains, MAMS(), 1),
    "MCLMC": partial(chains, MCLMC(), THINNING),
    "MILE": lambda problem, run: methods.mile(problem, THINNING, run),
    "MFVI": methods.mean_field,
    "IVON": methods.ivon,
    "SGLD": partial(sampler, SGLD, 1.0, False),
    "SGHMC": partial(sampler, SGHMC, 0.3, False),
    "SGHMC CLR": partial(sampler, SGHMC, 1.0, True),
    "SGHMC CLR-Prec": partial(sampler, PreconditionedSGHMC, 0.01, True),
    "SGHMC Prec": partial(sampler, PreconditionedSGHMC, 0.003, False),
    "SGLD Prec": partial(sampler, partial(PreconditionedSGLD, epsilon=3e-3), 0.003, False),
    "Laplace, Kronecker": partial(methods.laplace, structure="kron"),
    "Laplace, last layer": partial(methods.laplace, subset="last_layer", structure="full"),
    "VBLL": methods.last_layer,
    "MC dropout": methods.mc_dropout,
    "Concrete dropout": methods.concrete_dropout,
    "deep ensemble": methods.deep_ensemble,
    "SWAG": partial(methods.swag, rate=1.0),
    "MAP": methods.mode,
}


def of_chains(chains: Reference, y: np.ndarray) -> list[dict[str, float]]:
    """The scores of each chain, held against the others; seconds are those of all."""
    seconds = {"seconds": float(chains.seconds)}
    return [scores(p, chains.others(c), y) | seconds for c, p in enumerate(chains.p)]


def of_method(
    name: str, args: argparse.Namespace, problem: Problem, chains: Reference, test: Any
) -> list[dict[str, float]]:
    """The scores of each seed, held against the chains."""
    record_file = RecordFile(args.savedir / "posterior_table.jsonl", "method", "seed")
    rows = []
    for seed in range(args.seeds):
        folder = args.savedir / "runs" / f"{slug(name)}_{seed}"

        def measure(folder: Path = folder, seed: int = seed) -> dict[str, float]:
            shutil.rmtree(folder, ignore_errors=True)  # of a run that was stopped
            started = time.perf_counter()
            posterior = METHODS[name](problem, run_of(args, seed, folder))
            seconds = time.perf_counter() - started
            p = predicted(posterior, test[0], args.S).mean
            return scores(p, chains.mean, test[1]) | {"seconds": seconds}

        settings = commands.configuration(args, "seeds", "seed")
        record = record_file.kept({"method": slug(name), "seed": seed}, settings, measure)
        rows.append({column: record[column] for column in COLUMNS})
        cells = ", ".join(f"{column} {value:.4g}" for column, value in rows[-1].items())
        print(f"{name}, seed {seed}: {cells}", flush=True)
    return rows


def run_of(args: argparse.Namespace, seed: int, folder: Path) -> Run:
    return Run(args.n_epochs, args.samples, args.chains, seed, folder)


def main_table(args: argparse.Namespace) -> None:
    data = image_data.chosen(args)
    problem = problems.digits(problems.pooled(data.x_train), data.y_train, args.units)
    x_test, y_test = image_data.full_test(args)
    test = problems.pooled(x_test), y_test
    args.savedir.mkdir(parents=True, exist_ok=True)
    folder = args.savedir / "runs" / "hmc"
    run = run_of(args, args.seed, folder)
    chains = reference(problem, test[0], run, args.savedir / "runs" / "reference.npz")
    print(f"HMC: R-hat of the predictions at most {chains.rhat[0]:.3f}", flush=True)
    rows = {"HMC": of_chains(chains, test[1])}
    for name in METHODS:
        rows[name] = of_method(name, args, problem, chains, test)
    run_files.write_table(args.savedir / "posterior_table.md", table(rows, chains))
    run_files.write_metrics(
        args, rhat=chains.rhat.tolist(), **{slug(name): r for name, r in rows.items()}
    )
    run_files.write_figure(figure(rows), args.savedir / "posterior_table.png")


def parser() -> argparse.ArgumentParser:
    parser = commands.image_parser(
        "posterior_inference.table", "How near to the posterior?", n_epochs=200
    )
    parser.add_argument("--units", type=int, default=50, help="of the hidden layer")
    parser.add_argument("--samples", type=int, default=500, help="of each chain, and its warm-up")
    parser.add_argument("--chains", type=int, default=4, help="number of Markov chains")
    parser.add_argument("--seeds", type=int, default=3, help="of the other methods")
    parser.add_argument("--S", type=int, default=200, help="drawn functions a prediction")
    return parser


def main() -> None:
    commands.run(parser(), main_table)


if __name__ == "__main__":
    main()
