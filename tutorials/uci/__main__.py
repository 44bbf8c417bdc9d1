"""The UCI regressions on their published splits, by any method of the package.

    python -m tutorials.uci --set boston                       # all methods, all splits
    python -m tutorials.uci --set boston --methods hmc laplace --splits 0 1
    python -m tutorials.uci --set boston --mode table          # beside the published columns
    python -m tutorials.uci --set boston --gap                 # tested between the training rows
    python -m tutorials.uci --folder my/set --split_folder my/set/gaps

The protocol of Hernandez-Lobato and Adams (2015): 20 splits (5 of the protein data), inputs and
targets normalised by the training part, scores in the units of the data, one hidden layer of 50
ReLUs (100 for the protein data). What a method has to choose it chooses on the training part: by
the evidence, or on the last 20 % of it.

A folder of one's own holds `data.txt`, `index_features.txt` and `index_target.txt`, as
`tfbdl.data.regression` reads them, and there or elsewhere the rows of the splits.

Each split of a method is added to the file of the set as it ends, so that a second call goes on
where the first was stopped, and several calls may share the splits.
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfbdl.data import RegressionData, regression, regression_splits, uci, uci_splits
from tfbdl.data.uci import PUBLISHED
from tutorials import commands, run_files
from tutorials.records import Record, RecordFile
from tutorials.uci import published
from tutorials.uci.around_networks import laplace, neural_linear
from tutorials.uci.batch_ensemble import batch_ensemble
from tutorials.uci.by_chains import hmc
from tutorials.uci.by_training import (
    bayes_by_backprop,
    concrete_dropout,
    ivon,
    mc_dropout,
    variational_dropout,
    vbll,
    weight_decay,
)
from tutorials.uci.joint_ensemble import deep_ensemble
from tutorials.uci.split import Split

Method = Callable[[Split, argparse.Namespace], tuple[tfbdl.Prediction, dict[str, Any]]]
"""Makes of data and flags a prediction of the test targets, and what was chosen and measured."""

METHODS: dict[str, Method] = {
    "weight_decay": weight_decay,
    "mc_dropout": mc_dropout,
    "concrete_dropout": concrete_dropout,
    "variational_dropout": variational_dropout,
    "bayes_by_backprop": bayes_by_backprop,
    "ivon": ivon,
    "vbll": vbll,
    "batch_ensemble": batch_ensemble,
    "deep_ensemble": deep_ensemble,
    "neural_linear": neural_linear,
    "laplace": laplace,
    "hmc": hmc,
}
SCORES = ("rmse", "log_likelihood")
SETTINGS = (
    *("hidden", "steps", "rate", "batch_size", "S", "K", "seed"),
    *("num_chains", "num_warmup", "num_samples", "max_leapfrog_steps"),
)
"""Flags that records depend on."""


def splits(args: argparse.Namespace) -> list[int]:
    """The splits asked for, or all of the set."""
    if args.splits:
        return args.splits
    if args.folder is not None:
        return regression_splits(args.split_folder or args.folder)
    return uci_splits(args.set, gap=args.gap)


def data_of(args: argparse.Namespace, split: int) -> RegressionData:
    """The data of a split."""
    if args.folder is not None:
        return regression(args.folder, split, splits=args.split_folder)
    return uci(args.set, split, gap=args.gap, directory=args.uci_path)


def name_of(args: argparse.Namespace) -> str:
    """The name of the set, for files and tables."""
    if args.folder is not None:
        return args.folder.resolve().name
    return f"{args.set}_gap" if args.gap else args.set


def record_file(args: argparse.Namespace) -> RecordFile:
    """What there is of the set."""
    return RecordFile(args.savedir / f"{name_of(args)}.jsonl", "method", "split")


def evaluate(args: argparse.Namespace, method: str, split: int) -> Record:
    """Scores of a method on a split, how long it took, and what it chose."""
    hidden = args.hidden or (100 if name_of(args).startswith("protein") else 50)
    own = argparse.Namespace(**{**vars(args), "hidden": hidden, "seed": args.seed + split})
    data = Split.of(data_of(args, split))
    keras.utils.set_random_seed(own.seed)
    started = time.perf_counter()
    prediction, details = METHODS[method](data, own)
    seconds = time.perf_counter() - started
    return {**data.scores(prediction), "seconds": seconds, "details": details}


def train(args: argparse.Namespace) -> None:
    settings = {name: getattr(args, name) for name in SETTINGS}
    for split in splits(args):
        for method in args.methods:
            record = record_file(args).kept(
                {"method": method, "split": split},
                settings,
                lambda m=method, s=split: evaluate(args, m, s),
            )
            scores = ", ".join(f"{name} {record[name]:.4g}" for name in (*SCORES, "seconds"))
            print(f"{name_of(args)}, split {split}, {method}: {scores}", flush=True)
            keras.backend.clear_session()
    table(args)


def table(args: argparse.Namespace) -> None:
    """Mean and standard error of each method that has records, below the published columns.

    Bold is what is as good as the best of these, or better, give or take one standard error. Gaps
    and folders of one's own have no such columns, but one of the worst split.
    """
    name, is_published = name_of(args), args.folder is None and not args.gap
    extra = "" if is_published else " worst split (nats) |"
    lines = [
        f"| {name} | RMSE | log likelihood (nats) |{extra} splits | seconds a split |",
        f"|---|---|---|{'' if is_published else '---|'}---|---|",
    ]
    lowest, highest = -np.inf, np.inf
    if is_published:
        lowest, highest = published.best(name)
        scores = (published.COLUMNS, published.RMSE[name], published.LOG_LIKELIHOOD[name])
        for column, rmse, log_likelihood in zip(*scores, strict=True):
            lines.append(f"| {column}, published | {rmse:g} | {log_likelihood:g} | | |")
    chosen = [record for record in record_file(args).records() if record["split"] in splits(args)]
    for method in METHODS:
        records = [record for record in chosen if record["method"] == method]
        if not records:
            continue
        of = {name: np.array([record[name] for record in records]) for name in (*SCORES, "seconds")}
        cells = [
            cell(of["rmse"], lowest, -1),
            cell(of["log_likelihood"], highest, 1),
            *([] if is_published else [f"{of['log_likelihood'].min():.4g}"]),
            str(len(records)),
            f"{of['seconds'].mean():.0f}",
        ]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    run_files.write_table(args.savedir / f"{name}.md", lines)


def cell(values: np.ndarray, best: float, sign: int) -> str:
    """Mean ± standard error; bold if one error to the better side, that of `sign`, is the best."""
    mean = values.mean()
    if len(values) == 1:
        return f"{mean:.4g}"
    error = values.std(ddof=1) / np.sqrt(len(values))
    text = f"{mean:.4g} ± {error:.2g}"
    return f"**{text}**" if sign * (mean - best) + error >= 0 else text


def parser() -> argparse.ArgumentParser:
    parser = commands.parser("uci", "The UCI regressions on their published splits.")
    parser.add_argument("--set", choices=list(PUBLISHED), default="boston", help="data set")
    parser.add_argument(
        "--methods", nargs="+", choices=list(METHODS), default=list(METHODS), metavar="METHOD"
    )
    parser.add_argument("--splits", nargs="+", type=int, help="some of them")
    parser.add_argument("--uci_path", default=None, help="folder of the data files")
    parser.add_argument("--gap", action="store_true", help="test between the training rows")
    parser.add_argument("--folder", type=Path, help="a set of one's own, in place of --set")
    parser.add_argument("--split_folder", type=Path, help="of its splits; by default --folder")
    parser.add_argument("--hidden", type=int, default=0, help="units; 0: 50, for protein 100")
    parser.add_argument("--steps", type=int, default=10_000, help="of training, at most")
    parser.add_argument("--rate", type=float, default=5e-3, help="of Adam, at the start")
    parser.add_argument("--batch_size", type=int, default=100, help="examples a step")
    parser.add_argument("--S", type=int, default=1000, help="drawn functions a prediction")
    parser.add_argument("--K", type=int, default=5, help="networks of the deep ensemble")
    parser.add_argument("--num_chains", type=int, default=4, help="of hmc")
    parser.add_argument("--num_warmup", type=int, default=500, help="trajectories of a chain")
    parser.add_argument("--num_samples", type=int, default=500, help="after those, of a chain")
    parser.add_argument("--max_leapfrog_steps", type=int, default=100, help="of a trajectory")
    return parser


def main() -> None:
    commands.run_modes(parser(), train=train, table=table)


if __name__ == "__main__":
    main()
