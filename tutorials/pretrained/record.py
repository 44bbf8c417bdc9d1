"""One method: trains it, asks it, and adds what it answers and costs to the records.

    python -m tutorials.pretrained.record --weights FILE --part tail --method SWAG

`python -m tutorials.pretrained` starts a process like this for each method, so that each has a peak
of memory of its own.
"""

from __future__ import annotations

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

from tfbdl import metrics
from tfbdl.inference import NeuralLinear
from tutorials import commands, processes
from tutorials.pretrained import features, heads, tails
from tutorials.pretrained.problem import ASKED, Images
from tutorials.records import Record, RecordFile

METHODS = {"head": list(heads.METHODS), "tail": list(tails.METHODS)}
POINTS = ("softmax", "fine-tuned")
"""Methods without a posterior."""
BATCHES = 2
"""Steps of an epoch of a tail whose costs alone are measured; memory is at its peak after them."""


def file_of(savedir: Path, *, costs: bool) -> RecordFile:
    """The scores of all methods, with what they cost then; or what they cost by now."""
    return RecordFile(savedir / ("costs.jsonl" if costs else "scores.jsonl"), "part", "method")


def answers_of(savedir: Path, part: str, method: str) -> Path:
    """The file of the answers of a method."""
    name = f"{part}, {method}".replace(" ", "_")
    return savedir / f"{name}.npz"


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """The flags that a record depends on, besides those that name it."""
    others = ("parts", "part", "method", "costs", "weights", "data_path")
    return commands.configuration(args, *others)


def record(args: argparse.Namespace) -> Record:
    """Trains and asks; of a tail of which the costs alone are wanted, after few steps."""
    given = features.kept(args, args.part)
    is_short = args.costs and args.part == "tail"
    number = BATCHES * args.batch_size if is_short else len(given.train)
    make = method(args)
    begun = time.process_time()
    made = make(given.train[:number], given.y_train[:number])
    trained = time.process_time()
    p = answers(args, made, given)
    seconds = {"ask_seconds": time.process_time() - trained}
    if not is_short:
        seconds["train_seconds"] = trained - begun
    costs = {name: round(value, 1) for name, value in seconds.items()}
    costs["peak_GB"] = round(processes.peak_bytes() / 1e9, 2)
    if args.costs:
        return costs
    features.write_npz(answers_of(args.savedir, args.part, args.method), p)
    return {**scores(p, given), **costs}


def method(args: argparse.Namespace) -> Callable[[np.ndarray, np.ndarray], Any]:
    """A function of examples and labels that gives what `tfbdl.predict` asks."""
    if args.part == "head":
        return partial(heads.METHODS[args.method], args)
    _, pretrained = tails.cut(features.body(args)[0])
    return partial(tails.METHODS[args.method], args, pretrained)


def answers(args: argparse.Namespace, made: Any, given: Images) -> dict[str, np.ndarray]:
    """Probabilities of the classes, of all that it is asked about."""
    number = {"head": args.S, "tail": args.tail_S}[args.part] if args.method not in POINTS else 0
    p: dict[str, np.ndarray] = {}
    for name in ASKED:
        p[name] = tfbdl.predict(made, getattr(given, name), number, seed=args.seed).mean
        if isinstance(made, NeuralLinear):
            positive = np.maximum(p[name], 1e-3)
            p[name] = positive / positive.sum(axis=1, keepdims=True)
    return p


def scores(p: dict[str, np.ndarray], given: Images) -> Record:
    """How good the answers are, and whether doubts are where they belong."""
    y, doubts = given.y_test, {name: scipy.stats.entropy(p[name], axis=1) for name in ASKED}
    return {
        "accuracy": float((p["test"].argmax(axis=1) == y).mean()),
        "nll": metrics.negative_log_likelihood(y, p["test"]),
        "ece": metrics.expected_calibration_error(y, p["test"]),
        "auroc_errors": metrics.error_auroc(y, p["test"], doubts["test"]),
        "auroc_unknown": metrics.auroc(doubts["test"], doubts["unknown"]),
        "auroc_digits": metrics.auroc(doubts["test"], doubts["digits"]),
        "people": float(scipy.stats.spearmanr(doubts["test"], given.people).statistic),
    }


def shared(name: str) -> argparse.ArgumentParser:
    """The flags that all records share."""
    flags = commands.photo_parser(
        name,
        "A pretrained network that knows when not to be trusted.",
        N=12_000,
        batch_size=100,
        n_epochs=40,
    )
    flags.set_defaults(savedir=Path("runs") / "pretrained")
    flags.add_argument("--weights", required=True, help="a file, or a name of keras.applications")
    flags.add_argument("--size", type=int, default=96, help="pixels a side")
    flags.add_argument("--tail_epochs", type=int, default=10, help="of the last blocks")
    flags.add_argument("--K", type=int, default=5, help="members of an ensemble")
    flags.add_argument("--rank", type=int, default=4, help="of LoRA")
    flags.add_argument("--S", type=int, default=50, help="functions drawn of a head")
    flags.add_argument("--tail_S", type=int, default=10, help="and of the last blocks")
    flags.add_argument(
        "--costs",
        action="store_true",
        help="measures seconds and memory anew, of the last blocks after a few steps",
    )
    return flags


def made(args: argparse.Namespace) -> None:
    """Adds the record, if it is not there."""
    key = {"part": args.part, "method": args.method}
    file = file_of(args.savedir, costs=args.costs)
    of = file.kept(key, settings(args), partial(record, args))
    numbers = [f"{name} {value:.4g}" for name, value in of.items() if isinstance(value, float)]
    print(f"{args.part}, {args.method}: {', '.join(numbers)}", flush=True)


def main() -> None:
    flags = shared("pretrained.record")
    flags.add_argument("--part", choices=list(METHODS), required=True)
    flags.add_argument("--method", required=True)
    commands.run(flags, made)


if __name__ == "__main__":
    main()
