"""What each method answers on the test images, by the epochs that it has spent.

A run leaves its settings in `run.json`, the seconds of its epochs in `cpu_seconds.json`, and what
it predicts after some of them, in a folder of `--results`; its checkpoints are in `--savedir`.
Methods of several runs, such as an ensemble, and those that average over epochs, such as chains,
are put together here.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tfbdl.whole_file import write_whole
from tutorials.cifar10.predictions import (
    COSTS,
    Predicted,
    kept,
    kept_epochs,
    means,
    notes,
)

SETTINGS = "run.json"
LOG = "train.log"
SAMPLERS = {
    "sgld": "SGLD",
    "sghmc": "SGHMC",
    "preconditioned_sgld": "PreconditionedSGLD",
    "preconditioned_sghmc": "PreconditionedSGHMC",
}
"""Commands of chains, and what is theirs in `tfbdl.optimizers`."""
AVERAGED = (*SAMPLERS, "snapshots")
"""Commands of what is averaged over epochs."""
FROM_MODES = ("snapshots", "mean_field", "swag", "laplace", "laplace_all", *SAMPLERS)
"""Commands that start at a mode of their number."""
NO_MODE = "none"
"""The mode of what could start at one, and does not."""
NAMES = {
    "map": "MAP",
    "map_150": "MAP, kernels at 150",
    "mc_dropout": "MC dropout",
    "concrete_dropout": "Concrete dropout",
    "mean_field": "mean-field VI",
    "ivon": "IVON",
    "snapshots": "snapshot ensemble",
    "snapshots_dropout": "snapshot ensemble of MC dropout",
    "swag": "SWAG",
    "laplace": "Laplace, last layer",
    "laplace_all": "Laplace, Kronecker",
    "sgld": "SGLD",
    "sghmc": "SGHMC",
    "preconditioned_sgld": "SGLD, preconditioned",
    "preconditioned_sghmc": "SGHMC, layerwise preconditioner",
}
OF_SEVERAL = {
    "map": "deep ensemble",
    "mc_dropout": "ensemble of MC dropout",
    "swag": "MultiSWAG",
}
MIXED = "ensemble of several kinds"


class Answer(NamedTuple):
    """What is said of the test images after `epochs` and `hours` of a processor in all."""

    epochs: int
    hours: float
    said: Predicted


class Run(NamedTuple):
    """A training that has ended, or goes on."""

    folder: Path
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        return self.settings["name"] or self.settings["command"]

    @property
    def method(self) -> str:
        """The name of its row."""
        return NAMES.get(self.name, self.name)

    @property
    def method_of_several(self) -> str:
        """The name of what several runs like this one make."""
        method = OF_SEVERAL[self.settings["command"]]
        return f"{method}, {self.settings['name']}" if self.settings["name"] else method

    @property
    def has_ended(self) -> bool:
        return self.settings["epochs"] in kept_epochs(self.folder)

    @property
    def start(self) -> Run | None:
        """The run where it starts: the mode of its number, or the chain behind which it goes on.

        Raises:
            FileNotFoundError: if that is missing.
        """
        command, chain = self.settings["command"], self.settings.get("start")
        if command == "mean_field" and self.settings["mode"] == NO_MODE and not chain:
            return None
        if command not in FROM_MODES:
            return None
        folder = self.folder.parent / (chain or mode_of(self.settings))
        if not (folder / SETTINGS).exists():
            raise FileNotFoundError(
                f"{folder} is missing, where {self.folder.name} starts; train it first"
            )
        return Run(folder, settings_of(folder))

    @property
    def origin(self) -> Run:
        """The training to which it goes back, which started at no other."""
        start = self.start
        return start.origin if start else self

    @property
    def is_afresh(self) -> bool:
        """Whether it is a training that began at no other, in all its parts."""
        return self.origin.settings["command"] == self.settings["command"]

    def spent(self, epochs: int) -> tuple[int, float]:
        """Epochs and hours after so many of its own, with those of all that led to its start."""
        start = self.start
        before, hours = start.spent(start.settings["epochs"]) if start else (0, 0.0)
        return before + epochs, hours + hours_of(self.folder, epochs)

    def answers(self) -> list[Answer]:
        """All that it has kept, with what has been spent until then.

        Raises:
            FileNotFoundError: if its start, or the seconds of an epoch, are missing.
        """
        return [Answer(*self.spent(epoch), said) for epoch, said in kept(self.folder).items()]

    def sampled(self) -> list[Answer]:
        """The answers that averages over epochs take; a mode gives its last alone."""
        return self.answers()[0 if self.settings["command"] in AVERAGED else -1 :]


def hours_of(folder: Path, epochs: int) -> float:
    """Hours of a processor that the first epochs of a run have taken.

    Raises:
        FileNotFoundError: if those of an epoch are missing.
    """
    seconds = [cpu for epoch, cpu in notes(folder / COSTS).items() if epoch <= epochs]
    if len(seconds) < epochs:
        raise FileNotFoundError(f"{folder / COSTS} lacks the seconds of some of {epochs} epochs")
    return sum(seconds) / 3600


def folder_of(args: argparse.Namespace) -> Path:
    """The folder of a run among the results."""
    return args.results / f"{args.name or args.command}_{args.number}"


def run_of(args: argparse.Namespace) -> Run:
    """The run that flags ask for, begun or not."""
    return Run(folder_of(args), vars(args))


def checkpoints_of(args: argparse.Namespace) -> Path:
    """The folder of a run's checkpoints, and of the weights that a chain samples."""
    return args.savedir / folder_of(args).name


def mode_of(settings: Mapping[str, Any]) -> str:
    """The run that trained the mode at which another starts."""
    return "{mode}_{number}".format_map(settings)


def begin(args: argparse.Namespace) -> None:
    """Keeps the flags of a run beside what it leaves, before it trains.

    Raises:
        ValueError: if it has begun with others; only chains may go on for more epochs.
        FileExistsError: if it has predicted, and has no checkpoint to go on from.
    """
    flags = {k: v for k, v in vars(args).items() if k not in ("savedir", "results", "threads")}
    folder = folder_of(args)
    if kept_epochs(folder) and not checkpoints_of(args).exists():
        raise FileExistsError(
            f"{folder} has predictions, and {checkpoints_of(args)} no checkpoint to go on from; "
            "remove the first, or give another --name"
        )
    path = folder / SETTINGS
    begun = settings_of(folder) if path.exists() else dict(flags)
    if args.command in SAMPLERS and args.epochs > begun["epochs"]:
        begun["epochs"] = args.epochs
    for name in begun.keys() | flags.keys():
        old, new = begun.get(name), flags.get(name)
        if old != new:
            raise ValueError(
                f"{folder} holds a run with --{name} {old}, not {new}; give another --name"
            )
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(flags, indent=1) + "\n"
    write_whole(path, lambda file: file.write(text.encode()))


def settings_of(folder: Path) -> dict[str, Any]:
    """The flags of a run."""
    return json.loads((folder / SETTINGS).read_text())


def runs(results: Path) -> list[Run]:
    """All that have begun, by name and number."""
    begun = [Run(p.parent, settings_of(p.parent)) for p in results.glob(f"*/{SETTINGS}")]
    return sorted(begun, key=lambda run: (run.name, run.settings["number"]))


def groups(results: Path) -> Iterator[list[Run]]:
    """The runs of each name."""
    for _, group in itertools.groupby(runs(results), key=lambda run: run.name):
        yield list(group)


def ensembles(results: Path) -> Iterator[tuple[str, list[Run]]]:
    """The members of each ensemble, which have ended: of one name, and of several kinds.

    The latter has all trainings that began at no other, one of each name in turn.
    """
    kinds = [[run for run in ends(group) if run.has_ended] for group in groups(results)]
    for kind in kinds:
        if len(kind) > 1 and kind[0].settings["command"] in OF_SEVERAL:
            yield kind[0].method_of_several, kind
    afresh = [[run for run in kind if run.is_afresh] for kind in kinds]
    if sum(map(bool, afresh)) > 1:
        yield MIXED, [run for turn in itertools.zip_longest(*afresh) for run in turn if run]


def curves(results: Path) -> dict[str, list[Answer]]:
    """The answers of each method, in the order of what they have cost."""
    methods = {group[0].method: of_group(group) for group in groups(results)}
    for method, members in ensembles(results):
        methods[method] = together([run.answers()[-1] for run in members])
    return {method: answers for method, answers in methods.items() if answers}


def of_group(group: Sequence[Run]) -> list[Answer]:
    """The answers of the method of one name: its first run, or means over all chains."""
    if group[0].settings["command"] in AVERAGED:
        return of_chains(group)
    return [answer for part in parts(ends(group)[0]) for answer in part.answers()]


def together(answers: Sequence[Answer]) -> list[Answer]:
    """Means over the first members, for each number of them."""
    epochs = itertools.accumulate(a.epochs for a in answers)
    hours = itertools.accumulate(a.hours for a in answers)
    return list(map(Answer, epochs, hours, means(a.said for a in answers)))


def of_chains(group: Sequence[Run]) -> list[Answer]:
    """Means over the samples of all chains; of one that is shorter than others, over all its."""
    chains = [chain for run in ends(group) if (chain := samples(run))]
    longest = max(map(len, chains), default=0)
    at_once = ([chain[: k + 1][-1] for chain in chains] for k in range(longest))
    return [together(answers)[-1] for answers in at_once]


def ends(group: Sequence[Run]) -> list[Run]:
    """The runs behind which none goes on."""
    gone_on = {run.start.folder.name for run in group if run.start}
    return [run for run in group if run.folder.name not in gone_on]


def samples(run: Run) -> list[Answer]:
    """Means over the samples that one chain has kept so far, in all its parts."""
    answers = [answer for part in parts(run) for answer in part.sampled()]
    averaged = means(answer.said for answer in answers)
    return [answer._replace(said=said) for answer, said in zip(answers, averaged, strict=True)]


def parts(run: Run) -> list[Run]:
    """The runs that make the chain that ends with this one, the first first.

    The mode where snapshots start is one of theirs.
    """
    goes_on = run.settings.get("start") or run.settings["command"] == "snapshots"
    before = run.start if goes_on else None
    return [*(parts(before) if before else ()), run]
