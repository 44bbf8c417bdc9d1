"""Hamiltonian Monte Carlo with one part changed at a time: whose fault is it?

    python -m tutorials.uci.chain_variants --set naval --gap --splits 3
    python -m tutorials.uci.chain_variants --set naval --gap --splits 3 --mode table

If longer chains score better, it is the chains, and R-hat of the functions in the gap says so. If
one scale for all inputs does, it is the prior; and if a noise known from held-out data does, it is
that of the training data, which is learned. What none of them mends is the model's.
"""

from __future__ import annotations

import tfbdl  # noqa: F401  # isort: skip  (before anything that imports TensorFlow)

import argparse

import numpy as np

from tutorials import commands, run_files
from tutorials.records import Record
from tutorials.uci import methods, sets
from tutorials.uci.by_chains import VARIANTS
from tutorials.uci.split import Split


def evaluate(method: str, data: Split, args: argparse.Namespace) -> Record:
    """Scores of a variant on a split, with what its chains did."""
    prediction, entries = methods.timed(VARIANTS[method], data, args)
    return {**data.scores(prediction), **entries}


def train(args: argparse.Namespace) -> None:
    methods.keep(args, evaluate, ("rmse", "log_likelihood", "seconds"))
    table(args)


def table(args: argparse.Namespace) -> None:
    """Means over splits, the worst split, and the largest R-hat; noise in units of the targets'."""
    name = sets.name_of(args)
    columns = [name, "RMSE", "log likelihood (nats)", "worst split", "R-hat", "noise", "splits"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for method in VARIANTS:
        records = methods.records_of(args, method)
        if not records:
            continue
        logs = [record["log_likelihood"] for record in records]
        cells = [
            f"{np.mean([record['rmse'] for record in records]):.4g}",
            f"{np.mean(logs):.4g}",
            f"{np.min(logs):.4g}",
            f"{max(record['details']['rhat_of_functions'] for record in records):.2f}",
            f"{np.mean([record['details']['noise'] for record in records]):.3g}",
            str(len(records)),
        ]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    run_files.write_table(args.savedir / f"{name}.md", lines)


def parser() -> argparse.ArgumentParser:
    return methods.parser("uci.chain_variants", "Variants of HMC, to find faults.", VARIANTS)


def main() -> None:
    commands.run_modes(parser(), train=train, table=table)


if __name__ == "__main__":
    main()
