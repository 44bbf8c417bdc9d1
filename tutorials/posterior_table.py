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
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import common

sys.path.insert(0, str(Path(common.__file__).parent / "posterior"))

import matplotlib.pyplot as plt
import methods
import numpy as np
import problems
from compare import once
from methods import Method, Posterior, Run, predicted
from problems import Problem
from reference import Reference, reference

from tfbdl import metrics
from tfbdl.data import load
from tfbdl.optimizers import SGHMC, SGLD, PreconditionedSGHMC, PreconditionedSGLD

COLUMNS = {
    "accuracy": ("accuracy", 100, "{:.2f} ± {:.2f} %"),
    "agreement": ("agreement", 100, "{:.2f} ± {:.2f} %"),
    "total_variation": ("total variation", 1, "{:.3f} ± {:.3f}"),
    "nll": ("NLL (nats)", 1, "{:.3f} ± {:.3f}"),
    "ece": ("ECE", 100, "{:.2f} ± {:.2f} %"),
    "seconds": ("seconds", 1, "{:.0f} ± {:.0f}"),
}
"""Titles, units and formats of what is measured."""
LECTURE = {
    "HMC": ("94.01 %", ".074"),
    "MFVI": ("88.75 %", ".136"),
    "SGLD": ("91.54 %", ".110"),
    "SGHMC": ("91.98 %", ".109"),
    "SGHMC CLR": ("92.67 %", ".099"),
    "SGHMC CLR-Prec": ("90.96 %", ".111"),
}
"""Agreement and total variation of ResNet-20 on CIFAR-10."""


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
STOCHASTIC_GRADIENTS = ("SGLD", "SGHMC", "SGHMC CLR", "SGHMC CLR-Prec")
"""Of the lecture, where all are nearer to HMC than MFVI."""


def scores(p: np.ndarray, reference: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Of class probabilities p, shape (N, classes)."""
    return {
        "accuracy": float(np.mean(p.argmax(-1) == y)),
        "agreement": metrics.agreement(p, reference),
        "total_variation": metrics.total_variation(p, reference),
        "nll": metrics.negative_log_likelihood(y, np.maximum(p, 1e-12)),
        "ece": metrics.expected_calibration_error(y, p),
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

        records.append(once(folder.with_suffix(".json"), measure))
        cells = ", ".join(f"{column} {value:.4g}" for column, value in records[-1].items())
        print(f"{name}, seed {seed}: {cells}", flush=True)
    return records


def slug(name: str) -> str:
    """The name of a method's files."""
    return name.lower().replace(",", "").replace(" ", "_").replace("-", "_")


def run_of(args: argparse.Namespace, seed: int, folder: Path) -> Run:
    return Run(args.n_epochs, args.samples, args.chains, seed, folder)


def table(rows: Mapping[str, list[dict[str, float]]], found: Reference) -> list[str]:
    """Mean and standard deviation over chains or seeds; and where the lecture's order fails."""
    titles = [title for title, *_ in COLUMNS.values()]
    lines = [
        f"| | {' | '.join(titles)} | agreement, lecture | total variation, lecture |",
        "|---" * (len(titles) + 3) + "|",
    ]
    for name, records in rows.items():
        cells = []
        for column, (_, unit, form) in COLUMNS.items():
            values = unit * np.array([record[column] for record in records])
            known = np.isfinite(values).all()
            cells.append(form.format(values.mean(), values.std(ddof=1)) if known else "-")
        lines.append(f"| {name} | {' | '.join(cells)} | {' | '.join(LECTURE.get(name, '--'))} |")
    most, median = found.rhat
    lines += [
        "",
        f"HMC: {len(found.p)} chains, acceptance {found.acceptance:.2f}, "
        f"{found.leapfrog_steps:.0f} gradients a sample; R-hat of the predictions {most:.3f} at "
        f"most, median {median:.3f}.",
        "",
        *ordering(rows),
    ]
    return lines


def ordering(rows: Mapping[str, list[dict[str, float]]]) -> list[str]:
    """A line for each column in which the lecture's order is to be found, or is not."""
    lines = []
    for column, sign in (("agreement", 1), ("total_variation", -1)):
        mean = {n: sign * np.mean([r[column] for r in records]) for n, records in rows.items()}
        present = [name for name in STOCHASTIC_GRADIENTS if name in mean]
        beyond = [name for name in present if mean[name] <= mean.get("MFVI", np.nan)]
        nearer = [name for name in present if name not in beyond]
        title = COLUMNS[column][0]
        lines.append(
            f"By {title}, nearer to HMC than MFVI: {', '.join(nearer) or 'none'}; "
            f"not: {', '.join(beyond) or 'none'}."
        )
    return lines


def figure(rows: Mapping[str, list[dict[str, float]]]) -> plt.Figure:
    """The distances from the reference, and what they mean for the test images."""
    columns = ("total_variation", "agreement", "nll", "accuracy")
    mean = {name: np.mean([r["total_variation"] for r in rows[name]]) for name in rows}
    names = sorted(mean, key=lambda name: -mean[name])
    figure, axes = plt.subplots(1, 4, figsize=(14, 4.5), layout="constrained", sharey=True)
    for ax, column in zip(axes, columns, strict=True):
        title, unit, _ = COLUMNS[column]
        for place, name in enumerate(names):
            values = unit * np.array([record[column] for record in rows[name]])
            colour = "C3" if name == "HMC" else "C0"
            ax.plot(values, np.full(len(values), place), "o", color=colour, ms=4, alpha=0.5)
            ax.plot(values.mean(), place, "|", color=colour, ms=14, mew=2)
        ax.set(xlabel=title + (" (%)" if unit == 100 else ""))
        ax.grid(alpha=0.3)
    axes[0].set_yticks(range(len(names)), names)
    figure.suptitle(
        "how near to Hamiltonian Monte Carlo: dots are seeds or chains, bars their mean"
    )
    return figure


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
