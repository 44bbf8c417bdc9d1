"""The UCI regressions on their published splits, by any method of the package.

    python -m tutorials.uci --set boston                       # all methods, all splits
    python -m tutorials.uci --set boston --methods hmc laplace --splits 0 1
    python -m tutorials.uci --set boston --mode table          # beside the published columns
    python -m tutorials.uci --set boston --gap                 # tested between the training rows
    python -m tutorials.uci --set boston --mode between        # both kinds of splits side by side
    python -m tutorials.uci --folder my/set --split_folder my/set/gaps

The protocol of Hernandez-Lobato and Adams (2015): 20 splits (5 of the protein data), inputs and
targets normalised by the training part, scores in the units of the data, one hidden layer of 50
ReLUs (100 for the protein data). What a method has to choose it chooses on the training part: by
the evidence, or on the last 20 % of it.

A folder of one's own holds `data.txt`, `index_features.txt` and `index_target.txt`, as
`tfbdl.data.regression` reads them, and there or elsewhere the rows of the splits.

Each split of a method is added to the file of the set as it ends, so that a second call goes on
where the first was stopped, and several calls may share the splits. Most of the time is XLA's, as
networks are so small: with `TF_XLA_FLAGS=--tf_xla_persistent_cache_directory=FOLDER` in the
environment other splits, and other calls, find its programs in that folder.
"""

from __future__ import annotations

import tfbdl  # noqa: F401  # isort: skip  (before anything that imports TensorFlow)

import argparse
from collections.abc import Sequence

import numpy as np

from tfbdl.data.uci import PUBLISHED
from tutorials import commands, run_files
from tutorials.records import Record
from tutorials.uci import methods, published, sets
from tutorials.uci.methods import METHODS
from tutorials.uci.split import Split

SCORES = ("rmse", "log_likelihood")


def evaluate(method: str, data: Split, args: argparse.Namespace) -> Record:
    """Scores of a method on a split, how long it took, and what it chose."""
    prediction, entries = methods.timed(METHODS[method], data, args)
    return {**data.scores(prediction), **entries}


def train(args: argparse.Namespace) -> None:
    methods.keep(args, evaluate, (*SCORES, "seconds"))
    table(args)


def table(args: argparse.Namespace) -> None:
    """Mean and standard error of each method that has records, below the published columns.

    Bold is what is as good as the best of these, or better, give or take one standard error. Gaps
    and folders of one's own have no such columns, but one of the worst split.
    """
    name, is_published = sets.name_of(args), args.folder is None and not args.gap
    extra = "" if is_published else " worst split (nats) |"
    lines = [
        f"| {name} | RMSE | log likelihood (nats) |{extra} splits | seconds a split |",
        f"|---|---|---|{'' if is_published else '---|'}---|---|",
    ]
    lowest, highest = -np.inf, np.inf
    if is_published:
        lowest, highest = published.best(name)
        scores = (published.COLUMNS, published.RMSE[name], published.LOG_LIKELIHOOD[name])
        for column, *values in zip(*scores, strict=True):
            cells = ["" if value is None else f"{value:g}" for value in values]
            if any(cells):
                lines.append(f"| {column}, published | {' | '.join(cells)} | | |")
    for method in METHODS:
        records = methods.records_of(args, method)
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


def between(args: argparse.Namespace) -> None:
    """The gaps of a set beside its standard splits, method by method, with the worst gap."""
    standard, gaps = (
        argparse.Namespace(**{**vars(args), "gap": gap, "splits": None}) for gap in (False, True)
    )
    lines = [
        f"| {args.set} | RMSE | in gaps | log likelihood (nats) | in gaps | worst gap | gaps |",
        "|---" * 7 + "|",
    ]
    for method in METHODS:
        pair = methods.records_of(standard, method), methods.records_of(gaps, method)
        if not pair[1]:
            continue
        cells = [
            mean_of([record[score] for record in records]) for score in SCORES for records in pair
        ]
        worst = min(record["log_likelihood"] for record in pair[1])
        lines.append(f"| {method} | {' | '.join(cells)} | {worst:.4g} | {len(pair[1])} |")
    constant = PUBLISHED[args.set].constant
    if constant:
        lines += ["", f"Features {', '.join(map(str, constant))} are constant, and have no gap."]
    run_files.write_table(args.savedir / f"{args.set}_between.md", lines)


def cell(values: np.ndarray, best: float, sign: int) -> str:
    """Mean ± standard error; bold if one error to the better side, that of `sign`, is the best."""
    text = mean_of(values)
    if len(values) == 1:
        return text
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"**{text}**" if sign * (values.mean() - best) + error >= 0 else text


def mean_of(values: Sequence[float] | np.ndarray) -> str:
    """Mean and, of several, its standard error; nothing of none."""
    if len(values) < 2:
        return "".join(f"{value:.4g}" for value in values)
    return f"{np.mean(values):.4g} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2g}"


def parser() -> argparse.ArgumentParser:
    return methods.parser("uci", "The UCI regressions on their published splits.", METHODS)


def main() -> None:
    commands.run_modes(parser(), train=train, table=table, between=between)


if __name__ == "__main__":
    main()
