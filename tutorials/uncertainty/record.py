"""One method, data set and seed: trains it, asks it, and adds what it answers to the records.

    python -m tutorials.uncertainty.record --data mnist --seed 0 --method ivon

`python -m tutorials.uncertainty` starts a process like this for each of them, so that each has a
peak of memory of its own.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # some processors have it off: twice as fast

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfbdl import metrics
from tfbdl.data import NAMES, rotate
from tutorials import commands, processes
from tutorials.records import Record, RecordFile
from tutorials.uncertainty import methods
from tutorials.uncertainty.run import Run

ANGLES = tuple(range(0, 91, 15))
MIDDLE = len(ANGLES) // 2
"""The angle whose answers are kept for figures."""
SHOWN = 10
"""One in so many answers that are kept is written down."""
SETTINGS = ("N", "batch_size", "n_epochs", "K", "S", "every")
"""The flags that a record depends on, besides those that name it."""


def slug(name: str) -> str:
    """The name of a method in flags and records."""
    return name.lower().replace(" ", "_").replace("-", "_")


def file_of(args: argparse.Namespace) -> RecordFile:
    """The records of all data sets, seeds and methods."""
    return RecordFile(args.savedir / "uncertainty.jsonl", "data", "seed", "method")


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """The values of `SETTINGS`."""
    return {name: getattr(args, name) for name in SETTINGS}


def made(args: argparse.Namespace) -> Record:
    """The record of the flags; made if it is not there."""
    key = {"data": args.data, "seed": args.seed, "method": args.method}
    method = next(of for name, of in methods.METHODS.items() if slug(name) == args.method)
    return file_of(args).kept(key, settings(args), lambda: record(method, args))


def record(method: methods.Method, args: argparse.Namespace) -> Record:
    """Trains and asks."""
    run = Run(args)
    begun = time.process_time()
    answering = method(run)
    beside = time.process_time() - begun - run.now
    begun = time.process_time()
    scores = judged(answering, run)
    asked = time.process_time() - begun
    peak = processes.peak_bytes() / 2**30
    seconds = {"train_seconds": run.seconds + beside, "ask_seconds": asked}
    return {**scores, **seconds, "peak_GB": round(peak, 2)}


def judged(answering: Any, run: Run) -> Record:
    """What it says of turned test images, of those as they are, and of unknown ones."""
    is_point = isinstance(answering, keras.Model) and not tfbdl.predictive.is_random(answering)
    number, seed = 0 if is_point else run.args.S, run.args.seed

    def asked(x: np.ndarray) -> Any:  # XLA convolves more slowly
        return tfbdl.predict(answering, x, number, seed=seed, jit_compile=False, verbose=0)

    y, upright, unknown = run.y_test, asked(run.x_test), asked(run.unknown)
    turned: dict[str, list[float]] = {}
    for angle in ANGLES:
        x = run.subset(run.x_test) if angle else run.x_test
        labels = run.subset(y) if angle else y
        prediction = asked(rotate(x[..., 0], angle)[..., None]) if angle else upright
        for name, value in basic(labels, prediction).items():
            turned.setdefault(name, []).append(value)
        if angle == ANGLES[MIDDLE]:
            kept = prediction.mean[::SHOWN]
    entropy = upright.entropy
    scores: Record = {
        "turned": turned,
        "auroc": metrics.auroc(entropy, unknown.entropy),
        "aupr": metrics.aupr(entropy, unknown.entropy),
        "error_auroc": metrics.error_auroc(y, upright.mean, entropy),
    }
    if run.args.answers:
        scores["p_turned"] = np.round(kept.astype(float), 5).tolist()
        scores["entropy_in"] = np.round(entropy[::SHOWN].astype(float), 5).tolist()
        scores["entropy_out"] = np.round(unknown.entropy[::SHOWN].astype(float), 5).tolist()
    return scores


def basic(y: np.ndarray, prediction: Any) -> dict[str, float]:
    """Accuracy, negative log likelihood and mean entropy in nats, and calibration error.

    Probabilities below 1e-12 count as that in the likelihood.
    """
    p = prediction.mean
    return {
        "accuracy": float(np.mean(p.argmax(-1) == y)),
        "nll": metrics.negative_log_likelihood(y, np.maximum(p, 1e-12)),
        "ece": metrics.expected_calibration_error(y, p),
        "entropy": float(np.mean(prediction.entropy)),
    }


def shared(name: str) -> argparse.ArgumentParser:
    """The flags that all records share."""
    flags = commands.parser(name, "Is the uncertainty any good?")
    flags.set_defaults(savedir=Path("runs") / "uncertainty")
    flags.add_argument("--mnist_path", default=None, help="folder of the data files")
    flags.add_argument("--N", type=int, default=50_000, help="training images, the first ones")
    flags.add_argument("--batch_size", type=int, default=250, help="images a step; of N a divisor")
    flags.add_argument("--n_epochs", type=int, default=25, help="passes over the data")
    flags.add_argument("--K", type=int, default=5, help="networks of the deep ensemble")
    flags.add_argument("--S", type=int, default=20, help="drawn functions a prediction")
    flags.add_argument("--every", type=int, default=5, help="one of so many images is turned")
    return flags


def main() -> None:
    flags = shared("uncertainty.record")
    flags.add_argument("--data", choices=NAMES, default="mnist", help="data set")
    flags.add_argument("--answers", action="store_true", help="keeps some of them, for figures")
    flags.add_argument("--method", choices=[slug(name) for name in methods.METHODS], required=True)
    commands.run(flags, lambda args: print(shown(made(args)), flush=True))


def shown(of: Record) -> str:
    """A line for the terminal."""
    first = {name: values[0] for name, values in of["turned"].items()}
    numbers = ", ".join(f"{name} {value:.4f}" for name, value in first.items())
    return (
        f"{of['data']}, seed {of['seed']}, {of['method']}: {numbers}, auroc {of['auroc']:.4f}, "
        f"{of['train_seconds']:.0f} s, {of['peak_GB']} GB"
    )


if __name__ == "__main__":
    main()
