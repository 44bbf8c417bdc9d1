"""All methods by their names, the flags that they depend on, and runs of them that are kept."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from tfbdl.predictive import Prediction
from tutorials import commands
from tutorials.records import Record, RecordFile
from tutorials.uci import sets
from tutorials.uci.around_networks import laplace, neural_linear
from tutorials.uci.batch_ensemble import batch_ensemble, rank_1
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
from tutorials.uci.joint_ensemble import deep_ensemble, deep_ensemble_32
from tutorials.uci.multi_swag import multi_swag
from tutorials.uci.split import Split

Method = Callable[[Split, argparse.Namespace], tuple[Prediction, dict[str, Any]]]
"""Makes of data and flags a prediction of the test targets, and what was chosen and measured."""

METHODS: dict[str, Method] = {
    "weight_decay": weight_decay,
    "mc_dropout": mc_dropout,
    "concrete_dropout": concrete_dropout,
    "variational_dropout": variational_dropout,
    "bayes_by_backprop": bayes_by_backprop,
    "ivon": ivon,
    "vbll": vbll,
    "rank_1": rank_1,
    "batch_ensemble": batch_ensemble,
    "deep_ensemble_32": deep_ensemble_32,
    "deep_ensemble": deep_ensemble,
    "multi_swag": multi_swag,
    "neural_linear": neural_linear,
    "laplace": laplace,
    "hmc": hmc,
}
SETTINGS = (
    *("hidden", "steps", "rate", "batch_size", "S", "K", "seed"),
    *("num_chains", "num_warmup", "num_samples", "max_leapfrog_steps"),
)
"""Flags that records depend on."""


def parser(name: str, description: str, methods: Mapping[str, Method]) -> argparse.ArgumentParser:
    """The flags of the data, and of these methods."""
    parser = commands.parser(name, description)
    sets.add_flags(parser)
    parser.add_argument(
        "--methods", nargs="+", choices=list(methods), default=list(methods), metavar="METHOD"
    )
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


def record_file(args: argparse.Namespace) -> RecordFile:
    """What there is of the set."""
    return RecordFile(args.savedir / f"{sets.name_of(args)}.jsonl", "method", "split")


def records_of(args: argparse.Namespace, method: str) -> list[Record]:
    """What there is of a method on the splits asked for."""
    chosen = sets.splits(args)
    records = record_file(args).records()
    return [r for r in records if r["method"] == method and r["split"] in chosen]


def timed(
    method: Method, data: Split, args: argparse.Namespace
) -> tuple[Prediction, dict[str, Any]]:
    """The prediction of a method, with the seconds of a processor it took, and what it chose."""
    keras.utils.set_random_seed(args.seed)
    started = time.process_time()
    prediction, details = method(data, args)
    return prediction, {"seconds": time.process_time() - started, "details": details}


def keep(
    args: argparse.Namespace,
    make: Callable[[str, Split, argparse.Namespace], Record],
    names: Sequence[str],
) -> None:
    """Adds what `make(method, data, flags)` gives of each method and split, and prints `names`.

    What is there is not made again.
    """
    settings = {name: getattr(args, name) for name in SETTINGS}
    name, file = sets.name_of(args), record_file(args)
    hidden = args.hidden or (100 if name.startswith("protein") else 50)
    for split in sets.splits(args):
        own = argparse.Namespace(**{**vars(args), "hidden": hidden, "seed": args.seed + split})
        for method in args.methods:

            def record(method: str = method, split: int = split, own: Any = own) -> Record:
                return make(method, Split.of(sets.data_of(args, split)), own)

            kept = file.kept({"method": method, "split": split}, settings, record)
            scores = ", ".join(f"{name} {kept[name]:.4g}" for name in names)
            print(f"{name}, split {split}, {method}: {scores}", flush=True)
            keras.backend.clear_session()
