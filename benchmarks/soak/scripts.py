"""The tutorial scripts as jobs, shortened, on data that need no download."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from soak.jobs import Job, Refused, arrays, check_logs, without_seconds
from soak.uci_files import write_splits
from tfbdl.data.mushroom import Mushrooms
from tfbdl.data.uci import PUBLISHED, Published

DIGITS = "--data digits --N 200"
FIVE_MUSHROOMS = Mushrooms(np.eye(5, dtype="float32"), np.arange(5) % 2 == 0)
OF_TIME = re.compile("second|minute|time|versions")
"""Names of what no two runs have in common, in records and of files."""


class Script(NamedTuple):
    """How a tutorial is run.

    flags: the flags of the command line.
    short: constants by the names that they have in `tutorials`, with values that make it short.
    only: mappings by their names, with the keys that stay.
    """

    flags: str
    short: Mapping[str, Any] = {}
    only: Mapping[str, tuple[str, ...]] = {}


SCRIPTS = {
    "part1_vae": Script(f"{DIGITS} --n_epochs 12 --zdim 2 --k 5"),
    "convolutional_vae": Script("--data digits --N 200 --n_epochs 12 --k 5"),
    "part2_mc_dropout": Script(f"{DIGITS} --n_epochs 12 --S 3"),
    "part3_concrete_dropout": Script(f"{DIGITS} --n_epochs 12 --S 3"),
    "part4_variational_dropout": Script(f"{DIGITS} --n_epochs 12 --S 3"),
    "bayes_dense": Script(f"{DIGITS} --n_epochs 12 --S 3"),
    "many_seeds": Script(
        f"{DIGITS} --n_epochs 4 --seeds 2 --S 2",
        only={"many_seeds.METHODS": ("base", "concrete_dropout")},
    ),
    "uncertainty.record": Script(
        "--data digits --N 200 --n_epochs 12 --S 3 --K 2 --every 5 --method deep_ensemble",
        {"uncertainty.record.ANGLES": (0, 90), "uncertainty.record.MIDDLE": 1},
    ),
    "active_learning": Script(
        "--data digits --split tutorial --N 500 --labels 40 --pool 60 --S 3 --n_epochs 8 "
        "--seeds 1 --methods random BatchBALD --configurations 50 --decay 0.1"
    ),
    "continual_learning": Script(
        "--data digits --split tutorial --N 300 --tasks 2 --n_epochs 3 --weights 1 --seeds 1"
    ),
    "part4_sweeps": Script(
        f"{DIGITS} --seeds 1 --S 3",
        {"part4_sweeps.EPOCHS": (4, 6), "part4_sweeps.KL_WEIGHTS": (1.0,)},
    ),
    "posterior_inference.cycles": Script(
        f"{DIGITS} --n_epochs 4 --samples 20 --seeds 1 --S 10",
        {
            "posterior_inference.cycles.CHAINS": {4: 2},
            "posterior_inference.cycles.RATES": {"SGHMC": (0.3,)},
            "posterior_inference.running.STEPS_AN_EPOCH": 1000,
        },
    ),
    "posterior_inference.symmetries": Script("--units 3 --samples 50 --chains 2"),
    "posterior_inference.trajectories": Script("--chains 5 --samples 20"),
    "marginal_likelihood": Script(
        f"{DIGITS} --sets images --n_epochs 5",
        {
            "marginal_likelihood.__main__.WIDTHS": (1, 16),
            "marginal_likelihood.__main__.DEPTHS": (1,),
            "marginal_likelihood.__main__.EXAMPLES_AN_EPOCH": 1000,
            "marginal_likelihood.__main__.OF_PRECISIONS": (16, 1),
            "marginal_likelihood.__main__.PRECISIONS": (1.0, 1e5),
        },
    ),
    "posterior_inference.table": Script(
        f"{DIGITS} --units 5 --n_epochs 3 --samples 20 --chains 2 --seeds 2 --S 10",
        {"posterior_inference.running.STEPS_AN_EPOCH": 1000},
        {"posterior_inference.table.METHODS": ("SGHMC CLR",)},
    ),
    "posterior_inference": Script(
        "--N 12 --steps 30 --chains 2 --S 40",
        only={
            "posterior_inference.__main__.METHODS": ("HMC", "Laplace"),
            "posterior_inference.__main__.PROBLEMS": ("regression",),
        },
    ),
    "priors": Script(
        f"{DIGITS} --n_epochs 2 --S 5 --parts influence relevance",
        {"priors.relevance.PRIORS": {"ARD": "ard"}, "priors.relevance.EPOCHS": {"made": 20}},
    ),
    "uci": Script(
        "--set made --splits 0 1 --hidden 10 --steps 300 --S 20 "
        "--methods bayes_by_backprop mc_dropout",
        {
            "uci.by_training.SCALES": (1.0,),
            "uci.by_training.RATES": (0.01,),
            "uci.by_training.LENGTHSCALES": (0.1,),
            "uci.published.RMSE": {"made": (1.0,) * 5},
            "uci.published.LOG_LIKELIHOOD": {"made": (-1.0,) * 5},
        },
    ),
    "bayes_by_backprop.mnist": Script(
        "--data digits --methods plain bayes --n_epochs 6 --plain_epochs 2 --units 20"
    ),
    "bayes_by_backprop.bandit": Script(
        "--agents thompson epsilon_5 --seeds 1 --updates 2 --n_epochs 4",
        {
            "bayes_by_backprop.bandit.EPOCH": 20,
            "bayes_by_backprop.bandit.mushrooms": lambda path: FIVE_MUSHROOMS,
        },
    ),
    "bayes_by_backprop.regression": Script(
        "--S 10", {"bayes_by_backprop.regression.TEST_POINTS": 1000}
    ),
    "demo": Script("--quick"),
}


def job(name: str) -> Job:
    """The script of that name, with its first mode: training, and what is measured then."""
    return Job(lambda folder, begun: _run(name, folder, begun), check_logs, _outcome)


def _run(name: str, folder: Path, begun: Callable[[], None]) -> None:
    script, data = SCRIPTS[name], folder.parent / "data"
    module = importlib.import_module(f"tutorials.{name}")
    if hasattr(module, "__path__"):
        module = importlib.import_module(f"tutorials.{name}.__main__")
    with ExitStack() as stack:
        for constant, value in _patches(script).items():
            stack.enter_context(mock.patch(f"tutorials.{constant}", value))
        stack.enter_context(mock.patch.dict(PUBLISHED, made=_made(data)))
        stack.enter_context(mock.patch.dict(os.environ, TFBDL_DATA=str(data)))
        flags = (*script.flags.split(), "--savedir", str(folder))
        stack.enter_context(mock.patch.object(sys, "argv", [name, *flags]))
        stack.enter_context(mock.patch.object(sys, "stdout"))
        begun()
        try:
            module.main()
        except SystemExit as end:
            if end.code:
                raise Refused(str(end.code)) from None


def _patches(script: Script) -> dict[str, Any]:
    few = {}
    for constant, keys in script.only.items():
        module, _, attribute = constant.rpartition(".")
        every = getattr(importlib.import_module(f"tutorials.{module}"), attribute)
        few[constant] = {key: every[key] for key in keys}
    return {**script.short, **few}


def _made(folder: Path) -> Published:
    """A sum's sine of three features, with two splits."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(250, 3))
    y = np.sin(x.sum(axis=1)) + rng.normal(0, 0.1, 250)
    return write_splits(folder, np.c_[x, y])


def _outcome(folder: Path) -> dict[str, Any]:
    """What is in the files of a run, without what depends on the time that it took."""
    readers: dict[str, Callable[[Path], Any]] = {
        ".json": lambda path: _without_times(json.loads(path.read_text())),
        ".log": without_seconds,
        ".npz": lambda path: _without_times(arrays(path)),
        ".npy": lambda path: np.load(path).tobytes(),
    }
    return {
        str(path.relative_to(folder)): readers.get(path.suffix, lambda path: "is there")(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not OF_TIME.search(path.name)
    }


def _without_times(record: Any) -> Any:
    if isinstance(record, list):
        return [_without_times(value) for value in record]
    if not isinstance(record, dict):
        return record
    return {
        name: _without_times(value)
        for name, value in record.items()
        if not OF_TIME.search(name) and name != "savedir"
    }
