"""All that `make soak` does, part by part."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM, Signals
from typing import NamedTuple

from soak import (
    bad_calls,
    broken_data,
    calls_again,
    clock,
    files,
    folders,
    full_disk,
    fuzz,
    hostile,
    kills,
    memory,
    readers,
    scripts,
    threads,
    writers,
)

KILLS = {
    "training": 20,
    "chains": 15,
    "samples of SGLD": 10,
    "fit with a log": 10,
    "deep ensemble": 10,
    "results": 5,
}
SIGNALLED = ("training", "chains", "samples of SGLD", "fit with a log")
DISKS = ("training", "samples of SGLD", "chains", "deep ensemble")
TWICE = ("training", "chains", "samples of SGLD", "deep ensemble", "results")
CLOCKS = ("training", "chains", "fit with a log")


class Part(NamedTuple):
    """One attack.

    title: what is done.
    of: to what, and how often.
    run: does it, and says what came of it; raises AssertionError if something does not hold.
    """

    title: str
    of: str
    run: Callable[[], object]


def parts(scale: float, seed: int) -> Iterator[Part]:
    """The parts of a run of this size, in their order."""

    def share(whole: float) -> int:
        return max(round(scale * whole), 1)

    for name, number in KILLS.items():
        yield Part("SIGKILL", f"{name}", partial(_killed, name, share(number), seed, SIGKILL))
    for by in (SIGINT, SIGTERM, SIGHUP):
        for name in SIGNALLED:
            yield Part(by.name, name, partial(_killed, name, share(5), seed, by))
    for name in scripts.SCRIPTS:
        yield Part("SIGKILL", f"script {name}", partial(_killed, name, share(3), seed, SIGKILL))
    yield from _of_folders(share, seed)
    yield from _of_damage(share, seed)
    yield Part("data that raise", "`train`", partial(broken_data.raising, share(60), seed))
    yield Part("overflow", "mixed_float16", partial(broken_data.overflowing, share(40), seed))
    yield Part("threads", "new models", partial(threads.together, share(10), seed))
    for by_ in threads.TRAININGS:
        yield Part(
            "threads", f"while `{by_}` trains", partial(threads.while_training, by_, share(5))
        )
    for i in range(10):
        first, last = share(1000 * i) if i else 0, share(1000 * (i + 1))
        run = partial(bad_calls.report, first, last, seed)
        yield Part("bad arguments", f"calls {first + 1} to {last}", run)
    for name, run in memory.RUNS.items():
        yield Part("memory", name, partial(_grown, run, share(100_000)))
    for name in calls_again.CALLS:
        yield Part("memory", f"calls of {name}", partial(calls_again.checked, name, share(500)))
    yield Part("memory", "a service of `predict`", partial(calls_again.service, share(1000), seed))


def _of_folders(share: Callable[[float], int], seed: int) -> Iterator[Part]:
    """What disks, folders, other writers and clocks do to files."""
    for name in TWICE:
        yield Part("two writers", name, partial(_in_folder, writers.two, name, share(6), seed))
    for name in CLOCKS:
        yield Part(
            "clock set back", name, partial(_in_folder, clock.set_back, name, share(3), seed)
        )
    for name in DISKS:
        run = partial(_in_folder, full_disk.with_limits, name, share(8), seed)
        yield Part("limit on files", name, run)
    for name in files.FILES:
        yield Part("limit on files", name, partial(files.on_full_disk, name, share(10), seed))
    yield Part("small disk", "all", partial(full_disk.on_small_disk, share(8), seed))
    yield Part("no right to write", f"{len(files.FILES)} kinds of files", folders.unwritable)


def _of_damage(share: Callable[[float], int], seed: int) -> Iterator[Part]:
    """Files that are not what they should be, for whatever reads files."""
    for name in hostile.all_readers():
        number = share(200)
        run = partial(hostile.truncated, name, number)
        yield Part("cut off", f"{name}, {number} places", run)
    yield Part("hostile files", "all readers", hostile.refused)
    for name, reader in readers.readers().items():
        examples = share(1000 if name == ".keras" else 5000)
        what = f"{name}, {examples} files"
        yield Part("Hypothesis", what, partial(fuzz.by_hypothesis, reader, examples, seed))
    for name in fuzz.TRACED:
        seconds = share(45)
        what = f"{name}, {seconds} seconds"
        yield Part("Atheris", what, partial(fuzz.by_atheris, name, seconds, seed + 1))


def _killed(name: str, number: int, seed: int, by: Signals) -> str:
    with tempfile.TemporaryDirectory() as folder:
        actual = kills.survive(name, number, Path(folder), seed, by)
    refused = f", {actual.refused} refused to go on" if actual.refused else ""
    return (
        f"{actual.kills} signals{refused}, {actual.finished} runs finished; "
        f"{actual.seconds:.1f} s if let alone"
    )


def _in_folder(run: Callable[..., object], name: str, times: int, seed: int) -> object:
    with tempfile.TemporaryDirectory() as folder:
        return run(name, times, Path(folder), seed)


def _grown(run: Callable[[int], memory.Growth], steps: int) -> str:
    growth = memory.check(run(steps))
    return f"{growth.steps} steps, {growth.early:.0f} MB to {growth.late:.0f} MB"
