"""The tutorial scripts as jobs, shortened, on data that need no download."""

from __future__ import annotations

import hashlib
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

from soak.jobs import ROOT, Job, Refused, arrays, check_logs, without_seconds
from tfbdl.data.mushroom import Mushrooms
from tfbdl.data.uci import PUBLISHED, Published

DIGITS = "--data digits --N 200"
OF_TIME = re.compile("second|minute|time|versions")
"""Names of what no two runs have in common, in records."""


class Script(NamedTuple):
    """How a tutorial is run.

    flags: of the command line.
    short: constants of its modules by their names, with values that make it short.
    only: mappings of its modules by their names, with the keys that stay.
    """

    flags: str
    short: Mapping[str, Any] = {}
    only: Mapping[str, tuple[str, ...]] = {}


SCRIPTS = {
    "part1_vae": Script(f"{DIGITS} --n_epochs 12 --zdim 2 --k 5"),
    "part2_mc_dropout": Script(f"{DIGITS} --n_epochs 12 --S 3"),
    "part3_concrete_dropout": Script(f"{DIGITS} --n_epochs 12 --S 3"),
    "part4_variational_dropout": Script(f"{DIGITS} --n_epochs 12 --S 3"),
    "bayes_dense": Script(f"{DIGITS} --n_epochs 12 --S 3"),
    "compare": Script(
        f"{DIGITS} --n_epochs 4 --seeds 2 --S 2",
        only={"compare.METHODS": ("base", "concrete_dropout")},
    ),
    "uncertainty": Script(
        f"{DIGITS} --n_epochs 4 --S 3 --K 2",
        {"uncertainty.ANGLES": (0, 90), "uncertainty.MIDDLE": 1, "uncertainty.clothes": "digits"},
        {"uncertainty.METHODS": ("base", "deep ensemble")},
    ),
    "marginal_likelihood": Script(
        f"{DIGITS} --sets images --n_epochs 5",
        {
            "marginal_likelihood.WIDTHS": (1, 16),
            "marginal_likelihood.DEPTHS": (1,),
            "marginal_likelihood.EXAMPLES_AN_EPOCH": 1000,
            "marginal_likelihood.OF_PRECISIONS": (16, 1),
            "marginal_likelihood.PRECISIONS": (1.0, 1e5),
        },
    ),
    "posterior_table": Script(
        f"{DIGITS} --units 5 --n_epochs 3 --samples 20 --chains 2 --seeds 2 --S 10",
        {"running.STEPS_AN_EPOCH": 1000},
        {"posterior_table.METHODS": ("SGHMC CLR",)},
    ),
    "posterior_inference": Script(
        "--N 12 --steps 30 --chains 2 --S 40",
        only={
            "posterior_inference.METHODS": ("HMC", "Laplace"),
            "posterior_inference.PROBLEMS": ("regression",),
        },
    ),
    "priors": Script(
        f"{DIGITS} --n_epochs 2 --S 5 --parts influence relevance",
        {"relevance.PRIORS": {"ARD": "ard"}, "relevance.EPOCHS": {"made": 20}},
    ),
    "uci": Script(
        "--set made --splits 0 1 --hidden 10 --steps 300 --S 20 "
        "--methods bayes_by_backprop mc_dropout",
        {
            "by_training.SCALES": (1.0,),
            "by_training.RATES": (0.01,),
            "by_training.LENGTHSCALES": (0.1,),
        },
    ),
    "mnist": Script("--data digits --methods plain bayes --n_epochs 6 --plain_epochs 2 --units 20"),
    "bandit": Script(
        "--agents thompson epsilon_5 --seeds 1 --updates 2 --n_epochs 4",
        {"bandit.EPOCH": 20, "bandit.mushrooms": "made"},
    ),
    "regression": Script("--S 10", {"regression.TEST_POINTS": 1000}),
    "demo": Script("--quick"),
}


def job(name: str) -> Job:
    """The script of that name, with its first mode: training, and what is measured then."""
    return Job(lambda folder, begun: _run(name, folder, begun), check_logs, _outcome)


def _run(name: str, folder: Path, begun: Callable[[], None]) -> None:
    for room in ("", "bayes_by_backprop", "posterior", "priors", "uci"):
        path = str(ROOT / "tutorials" / room)
        if path not in sys.path:
            sys.path.append(path)
    script = SCRIPTS[name]
    main = importlib.import_module(name)
    with ExitStack() as stack:
        for constant, value in _patches(script, folder).items():
            stack.enter_context(mock.patch(constant, value))
        stack.enter_context(mock.patch.dict(PUBLISHED, made=_made(folder.parent / "data")))
        stack.enter_context(mock.patch.dict(os.environ, TFBDL_DATA=str(folder.parent / "data")))
        flags = (*script.flags.split(), "--savedir", str(folder))
        stack.enter_context(mock.patch.object(sys, "argv", [f"{name}.py", *flags]))
        stack.enter_context(mock.patch.object(sys, "stdout"))
        begun()
        try:
            main.main()
        except SystemExit as end:
            if end.code:
                raise Refused(str(end.code)) from None


def _patches(script: Script, folder: Path) -> dict[str, Any]:
    found = dict(script.short)
    for constant, keys in script.only.items():
        module, _, attribute = constant.partition(".")
        methods = getattr(importlib.import_module(module), attribute)
        found[constant] = {key: methods[key] for key in keys}
    if found.get("uncertainty.clothes"):
        common = importlib.import_module("common")
        found["uncertainty.clothes"] = lambda args: common.images(args).x_test
    if found.get("bandit.mushrooms"):
        found["bandit.mushrooms"] = lambda path: _mushrooms()
    return found


def _mushrooms() -> Any:
    return Mushrooms(np.eye(5, dtype="float32"), np.arange(5) % 2 == 0)


def _made(folder: Path) -> Published:
    """A data set with two splits, in files as those of Gal's repository."""
    data, rng = folder / "made" / "data", np.random.default_rng(0)
    x = rng.normal(size=(250, 3))
    table = np.c_[x, np.sin(x.sum(1)) + rng.normal(0, 0.1, 250)]
    if not (data / "index_test_1.txt").exists():
        data.mkdir(parents=True, exist_ok=True)
        np.savetxt(data / "data.txt", table, fmt="%.17g")
        columns: dict[str, Any] = {"features": [0, 1, 2], "target": [3]}
        for split in range(2):
            order = np.random.default_rng(split).permutation(250)
            columns |= {f"train_{split}": order[:150], f"test_{split}": order[150:]}
        for name, values in columns.items():
            np.savetxt(data / f"index_{name}.txt", values, fmt="%d")
    return Published("made", 2, hashlib.md5(table.tobytes()).hexdigest())


def _outcome(folder: Path) -> dict[str, Any]:
    """What is in the files of a run, without what depends on the time that it took."""
    readers: dict[str, Callable[[Path], Any]] = {
        ".json": lambda path: _without_times(json.loads(path.read_text())),
        ".log": without_seconds,
        ".npz": arrays,
        ".npy": lambda path: np.load(path).tobytes(),
    }
    return {
        str(path.relative_to(folder)): readers.get(path.suffix, lambda path: "is there")(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
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
