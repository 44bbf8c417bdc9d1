"""Intervals that should hold 90 % of new targets, before and after conformal prediction.

    python -m tutorials.uci.intervals --set boston --splits 0 1 2
    python -m tutorials.uci.intervals --set boston --gap          # where none can promise anything
    python -m tutorials.uci.intervals --set boston --mode table

Each method is trained on the first 80 % of the training part, and its intervals are calibrated on
the rest. Beside the methods of `tutorials.uci` stand single networks whose heads differ.
"""

from __future__ import annotations

import tfbdl  # noqa: F401  # isort: skip  (before anything that imports TensorFlow)

import argparse

import numpy as np

from tfbdl import metrics
from tfbdl.conformal import CQR
from tfbdl.conformal import Split as SplitConformal
from tfbdl.data import RegressionData
from tutorials import commands, run_files
from tutorials.records import Record
from tutorials.uci import methods, sets
from tutorials.uci.heads import HEADS
from tutorials.uci.split import Split

METHODS = methods.METHODS | HEADS
LEVEL = 0.9
INTERVALS = {"own": "its own", "split": "Split", "cqr": "CQR"}
PARTS = ("coverage", "width", "score")


def evaluate(method: str, data: Split, args: argparse.Namespace) -> Record:
    """Scores on the test targets, and of each kind of interval what is said of it."""
    held_out, test = data.validation.raw, data.raw
    x, y = (
        np.concatenate(pair)
        for pair in ((held_out.x_test, test.x_test), (held_out.y_test, test.y_test))
    )
    both = Split.of(RegressionData(held_out.x_train, held_out.y_train, x, y))
    prediction, entries = methods.timed(METHODS[method], both, args)
    number = len(held_out.x_test)
    own, y = prediction[number:], both.y_test[number:]
    intervals = {"own": own.interval(LEVEL)}
    for name, conformal in (("split", SplitConformal()), ("cqr", CQR())):
        calibrated = conformal.fit(prediction[:number], both.y_test[:number])
        intervals[name] = calibrated.predict(own, LEVEL)
    of_test = both._replace(x_test=both.x_test[number:], y_test=y)
    scores: Record = of_test.scores(own)
    if method == "head_quantiles":
        del scores["log_likelihood"]  # what it is trained by is no density
    scores["intervals"] = {
        name: {
            "coverage": metrics.interval_coverage(y, lower, upper),
            "width": both.scale * metrics.interval_width(lower, upper),
            "score": both.scale * metrics.interval_score(y, lower, upper, LEVEL),
        }
        for name, (lower, upper) in intervals.items()
    }
    return {**scores, **entries}


def train(args: argparse.Namespace) -> None:
    methods.keep(args, evaluate, ("rmse", "seconds"))
    table(args)


def table(args: argparse.Namespace) -> None:
    """Means over splits; of each interval its coverage in percent, its width, and its score.

    The score is the width and 20 times what a target is outside by: small is good.
    """
    name = sets.name_of(args)
    kinds = [f"{kind}: coverage, width, score" for kind in INTERVALS.values()]
    columns = [name, "RMSE", "log likelihood (nats)", *kinds, "splits"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for method in METHODS:
        records = methods.records_of(args, method)
        if not records:
            continue
        cells = [f"{np.mean([record['rmse'] for record in records]):.4g}"]
        logs = [record["log_likelihood"] for record in records if "log_likelihood" in record]
        cells.append(f"{np.mean(logs):.4g}" if logs else "")
        for kind in INTERVALS:
            coverage, width, score = (
                np.mean([record["intervals"][kind][part] for record in records]) for part in PARTS
            )
            cells.append(f"{100 * coverage:.1f} %, {width:.3g}, {score:.3g}")
        lines.append(f"| {method} | {' | '.join(cells)} | {len(records)} |")
    run_files.write_table(args.savedir / f"{name}.md", lines)


def parser() -> argparse.ArgumentParser:
    return methods.parser("uci.intervals", "Intervals of the UCI regressions.", METHODS)


def main() -> None:
    commands.run_modes(parser(), train=train, table=table)


if __name__ == "__main__":
    main()
