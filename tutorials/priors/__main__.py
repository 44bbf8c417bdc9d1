"""Priors: what a network assumes before it sees data, and what that does to what it learns.

    python -m tutorials.priors --mode train
    python -m tutorials.priors --mode test
    python -m tutorials.priors --mode visualize
    python -m tutorials.priors --parts limit relevance      # some of them, in any mode

The lecture's part on priors, one idea a file in `priors/`, each of which says in its first lines
what it shows:

    functions        networks drawn under each prior of single weights
    limit            wide networks: the Gaussian process, and the jump process of heavy tails
    deep_limit       the same for several hidden layers
    joint            priors of a layer's weights together, and of all layers' together
    jeffreys         the prior that does not depend on how weights are written
    influence        densities, tails, and the pull d log p(w) / dw
    relevance        ARD, a scale for each input: noise is switched off
    sparsity         the horseshoe beside normal and Laplace priors
    discrete         weights of two values
    structure        smooth filters; scales of filters and of LSTM gates
    empirical_bayes  the scale of a prior by the evidence, or by the bound on it

Parts that train write a `train.log` for each model; the numbers of all are in `metrics.json`.
`--data digits` needs no files, and leaves out the data of `relevance` that do.
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import keras
import numpy as np

from tutorials import commands, run_files
from tutorials.priors import (
    deep_limit,
    discrete,
    drawn_functions,
    empirical_bayes,
    influence,
    jeffreys,
    joint,
    limit,
    relevance,
    sparsity,
    structure,
)

PARTS: dict[str, ModuleType] = {
    "functions": drawn_functions,
    "limit": limit,
    "deep_limit": deep_limit,
    "joint": joint,
    "jeffreys": jeffreys,
    "influence": influence,
    "relevance": relevance,
    "sparsity": sparsity,
    "discrete": discrete,
    "structure": structure,
    "empirical_bayes": empirical_bayes,
}
"""Each has `measure`, a table of numbers, and `figures`; where it trains, `runs` says what."""


def parser() -> argparse.ArgumentParser:
    parser = commands.image_parser("priors", "Priors.", n_epochs=200)
    parser.add_argument(
        "--parts", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART"
    )
    parser.add_argument("--S", type=int, default=100, help="drawn functions a prediction")
    return parser


def runs(part: str, args: argparse.Namespace) -> dict[str, Any]:
    """The models that a part trains, by name."""
    return PARTS[part].runs(args) if hasattr(PARTS[part], "runs") else {}


def train(args: argparse.Namespace) -> None:
    for part in args.parts:
        for name, run in runs(part, args).items():
            print(f"==> {part}: {name}", flush=True)
            savedir = args.savedir / part / name
            model = run.model()
            tfbdl.train(
                model,
                np.repeat(run.x, run.repeats, axis=0),
                np.repeat(run.y, run.repeats, axis=0),
                epochs=run.epochs,
                batch_size=run.batch_size,
                savedir=savedir,
                columns=run.columns,
                seed=args.seed,
            )
            run_files.save(model, savedir)
    test(args)


def trained(part: str, args: argparse.Namespace) -> dict[str, keras.Model]:
    """The models of a part as `--mode train` has saved them."""
    return {name: run_files.trained(args.savedir / part / name) for name in runs(part, args)}


def test(args: argparse.Namespace) -> None:
    args.savedir.mkdir(parents=True, exist_ok=True)
    for part in args.parts:
        rows = PARTS[part].measure(args, trained(part, args))
        print(f"==> {part}")
        show(rows)
        run_files.write_metrics(args, **{part: rows})


def show(rows: Mapping[str, Mapping[str, float]]) -> None:
    """Prints a table, a line for each row with the columns that it has."""
    for name, row in rows.items():
        cells = ", ".join(f"{column} {value:.4g}" for column, value in row.items())
        print(f"test: {name}: {cells}", flush=True)


def visualize(args: argparse.Namespace) -> None:
    for part in args.parts:
        rows = run_files.read_metrics(args.savedir)[part]
        for name, figure in PARTS[part].figures(args, trained(part, args), rows).items():
            run_files.write_figure(figure, args.savedir / f"{name}.png")


def main() -> None:
    commands.run_modes(parser(), train=train, test=test, visualize=visualize)


if __name__ == "__main__":
    main()
