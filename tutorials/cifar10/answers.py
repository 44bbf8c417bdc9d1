"""What each method answers on the test images, by the epochs that it has spent.

A run leaves its settings in `run.json` and its predictions in epochs. Methods of several runs, such
as an ensemble, and those that average over epochs, such as chains, are put together here.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tfbdl
from tfbdl.whole_file import write_whole
from tutorials.cifar10.predictions import kept

SETTINGS = "run.json"
FROM_MODES = ("mean_field", "swag", "laplace")
"""Commands that start at the mode of their number, as chains do with `--from_mode`."""
NAMES = {
    "map": "MAP",
    "mc_dropout": "MC dropout",
    "concrete_dropout": "Concrete dropout",
    "mean_field": "mean-field VI",
    "swag": "SWAG",
    "laplace": "Laplace, last layer",
    "laplace_all": "Laplace, Kronecker",
}
OF_SEVERAL = {"map": "deep ensemble", "swag": "MultiSWAG"}


class Answer(NamedTuple):
    """The probabilities p, shape (10,000, 10), after `epochs` and `hours` of training in all."""

    epochs: int
    hours: float
    p: np.ndarray


class Run(NamedTuple):
    """A training that has ended, or goes on."""

    folder: Path
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        return self.settings["name"] or self.settings["command"]

    def answers(self) -> list[Answer]:
        """Its own, without what a run before it has cost."""
        seconds = seconds_of(self.folder)
        given = kept(self.folder / "predictions")
        return [Answer(e, sum(seconds[:e]) / 3600, p) for e, p in given.items()]


def write_settings(folder: Path, args: argparse.Namespace) -> None:
    """Keeps the flags of a run beside what it leaves."""
    flags = {k: v for k, v in vars(args).items() if k not in ("savedir", "weights", "threads")}
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(flags, indent=1) + "\n"
    write_whole(folder / SETTINGS, lambda file: file.write(text.encode()))


def runs(savedir: Path) -> list[Run]:
    """All that have begun, by name and number."""
    begun = [Run(p.parent, json.loads(p.read_text())) for p in savedir.glob(f"*/{SETTINGS}")]
    return sorted(begun, key=lambda run: (run.name, run.settings["number"]))


def groups(savedir: Path) -> Iterator[tuple[str, list[Run]]]:
    """The runs of each name."""
    for name, group in itertools.groupby(runs(savedir), key=lambda run: run.name):
        yield name, list(group)


def seconds_of(folder: Path) -> list[float]:
    """Seconds of each epoch of a run."""
    path = folder / "train.log"
    return list(tfbdl.read_log(path).seconds) if path.exists() else []


def curves(savedir: Path) -> dict[str, list[Answer]]:
    """The answers of each method, in the order of what they have cost."""
    methods: dict[str, list[Answer]] = {}
    for name, group in groups(savedir):
        for method, answers in of_group(name, group, savedir):
            if answers:
                methods[method] = answers
    return methods


def of_group(name: str, group: Sequence[Run], savedir: Path) -> Iterator[tuple[str, list[Answer]]]:
    """The methods that runs of one name make."""
    command = group[0].settings["command"]
    if command == "sampler":
        yield name, of_chains(group, savedir)
        return
    each = [in_all(run, run.answers(), savedir) for run in group]
    each = [answers for answers in each if answers]
    if each:
        yield NAMES.get(name, name), each[0]
    if command in OF_SEVERAL and len(each) > 1:
        yield OF_SEVERAL[command], together([answers[-1] for answers in each])


def in_all(run: Run, answers: Sequence[Answer], savedir: Path) -> list[Answer]:
    """A run's answers with what the mode has cost too, if it starts from one."""
    if run.settings["command"] not in FROM_MODES and not run.settings.get("from_mode"):
        return list(answers)
    before = seconds_of(savedir / f"map_{run.settings['number']}")
    return [Answer(len(before) + a.epochs, sum(before) / 3600 + a.hours, a.p) for a in answers]


def together(answers: Sequence[Answer]) -> list[Answer]:
    """Means over the first members, for each number of them."""
    sums = itertools.accumulate(a.p for a in answers)
    epochs = itertools.accumulate(a.epochs for a in answers)
    hours = itertools.accumulate(a.hours for a in answers)
    return [
        Answer(e, h, p / k)
        for k, (e, h, p) in enumerate(zip(epochs, hours, sums, strict=True), start=1)
    ]


def of_chains(group: Sequence[Run], savedir: Path) -> list[Answer]:
    """Means over the samples that all chains have kept so far."""
    chains = [in_all(run, list(samples(run)), savedir) for run in group]
    return [
        Answer(
            sum(a.epochs for a in at_once),
            sum(a.hours for a in at_once),
            np.mean([a.p for a in at_once], axis=0),
        )
        for at_once in zip(*chains, strict=False)
    ]


def samples(run: Run) -> Iterator[Answer]:
    """Means over the samples that one chain has kept so far."""
    epochs = {int(p.stem.split("_")[1]) for p in (run.folder / "samples").glob("sample_*.npz")}
    chosen = [answer for answer in run.answers() if answer.epochs in epochs]
    sums = itertools.accumulate(answer.p for answer in chosen)
    for number, (answer, total) in enumerate(zip(chosen, sums, strict=True), start=1):
        yield answer._replace(p=total / number)
