"""Is the uncertainty any good? Twelve methods around LeNet-5, three seeds, two sets of images.

    python -m tutorials.uncertainty
    python -m tutorials.uncertainty --sets mnist --methods ivon vbll --seeds 1

A method is good if its accuracy, likelihood and calibration hold as long as they can while the test
images turn, its entropy rises where they do not, and its entropy tells images of the other set,
which it has never seen. What that costs stands beside it. Each record is kept as it is made, by a
process of its own, and a training that is stopped goes on behind its last epoch.
"""

from __future__ import annotations

import tfbdl  # noqa: F401  # isort: skip  (before anything that imports TensorFlow)

import argparse
import itertools

import numpy as np

from tfbdl.data import load
from tutorials import commands, processes, run_files
from tutorials.records import Record
from tutorials.uncertainty import figures, record
from tutorials.uncertainty.methods import METHODS
from tutorials.uncertainty.run import OTHER

TITLES = {record.slug(name): name for name in METHODS}
PUBLISHED = {
    "mnist": "Uncertainty Baselines: deterministic 99.1 %, 0.037; ensemble of 10 99.4 %, 0.016; "
    "variational 98.5 %, 0.048",
    "fashion_mnist": "Uncertainty Baselines: deterministic 91.0 %, 0.321; ensemble of 10 93.2 %, "
    "0.200; variational 89.5 %, 0.292",
}
"""Accuracy and NLL of this network."""
PASSED_ON = ("savedir", "mnist_path", *record.SETTINGS)
"""Flags of the processes that make records."""


def main_table(args: argparse.Namespace) -> None:
    """Makes what is missing, and the table and figures of what is there."""
    seeds = range(args.seed, args.seed + args.seeds)
    for seed, data, method in itertools.product(seeds, args.sets, args.methods):
        made(data, seed, method, args)
    records = record.file_of(args).records(record.settings(args))
    sets = {data: by_method(records, data) for data in args.sets}
    lines = [line for data, of in sets.items() for line in table(data, of)]
    run_files.write_table(args.savedir / "uncertainty.md", lines)
    run_files.write_metrics(args, **{data: summary(of) for data, of in sets.items()})
    run_files.write_figure(figures.turned(sets), args.savedir / "turned.png")
    run_files.write_figure(figures.costs(sets), args.savedir / "costs.png")
    data, of = next(iter(sets.items()))
    y = load(data, "full", directory=args.mnist_path).y_test[:: args.every][:: record.SHOWN]
    run_files.write_figure(figures.unknown(of), args.savedir / "unknown.png")
    run_files.write_figure(figures.reliability(of, y), args.savedir / "reliability.png")
    run_files.write_figure(figures.risk(of, y), args.savedir / "risk_coverage.png")


def made(data: str, seed: int, method: str, args: argparse.Namespace) -> None:
    """Has a process make the record, if it is not there."""
    key = {"data": data, "seed": seed, "method": method}
    if record.file_of(args).get(key, record.settings(args)) is None:
        shared = {name: getattr(args, name) for name in PASSED_ON}
        answers = seed == args.seed
        processes.run("uncertainty.record", {**key, "answers": answers, **shared})


def by_method(records: list[Record], data: str) -> figures.ByMethod:
    """The records of a data set, in the order of the methods."""
    of = {
        name: [r for r in records if (r["data"], r["method"]) == (data, key)]
        for key, name in TITLES.items()
    }
    return {name: some for name, some in of.items() if some}


def table(data: str, of: figures.ByMethod) -> list[str]:
    """Means over seeds, and their standard deviation where it says something."""
    lines = [
        f"**{figures.NAMES[data]}**, {figures.seeds(of)}. {PUBLISHED.get(data, '')}".rstrip(),
        "",
        "| | test error | NLL (nats) | ECE | AUROC, unknown | AUROC, errors | training | asking | "
        "memory |",
        "|---" * 9 + "|",
    ]
    for name, some in of.items():
        cells = [
            over_seeds([100 * (1 - r["turned"]["accuracy"][0]) for r in some], 2, " %"),
            over_seeds([r["turned"]["nll"][0] for r in some], 4, ""),
            over_seeds([100 * r["turned"]["ece"][0] for r in some], 2, " %"),
            over_seeds([100 * r["auroc"] for r in some], 1, " %"),
            over_seeds([100 * r["error_auroc"] for r in some], 1, " %"),
            f"{np.mean([r['train_seconds'] for r in some]) / 60:.1f} min",
            f"{np.mean([r['ask_seconds'] for r in some]):.0f} s",
            f"{np.mean([r['peak_GB'] for r in some]):.1f} GB",
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, ""]


def over_seeds(values: list[float], digits: int, unit: str) -> str:
    """Mean and, of several, standard deviation."""
    mean = f"{np.mean(values):.{digits}f}"
    return f"{mean} ± {np.std(values, ddof=1):.{digits}f}{unit}" if len(values) > 1 else mean + unit


def summary(of: figures.ByMethod) -> dict[str, dict[str, float]]:
    """The means, for `metrics.json`."""
    return {
        record.slug(name): {
            **{column: float(figures.mean(some, column)[0]) for column in figures.COLUMNS},
            **{
                key: float(np.mean([r[key] for r in some]))
                for key in ("auroc", "aupr", "error_auroc", "train_seconds", "peak_GB")
            },
            "seeds": len(some),
        }
        for name, some in of.items()
    }


def parser() -> argparse.ArgumentParser:
    flags = record.shared("uncertainty")
    flags.add_argument(
        "--sets", nargs="+", choices=OTHER, default=list(PUBLISHED), help="sets of images"
    )
    flags.add_argument("--methods", nargs="+", choices=list(TITLES), default=list(TITLES))
    flags.add_argument("--seeds", type=int, default=3, help="how many, from --seed on")
    return flags


def main() -> None:
    commands.run(parser(), main_table)


if __name__ == "__main__":
    main()
