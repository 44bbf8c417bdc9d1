"""Signals at random moments of runs, which then go on."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import keras

from soak import scripts
from soak.jobs import JOBS, Job, Refused

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tfbdl"])
PATIENCE = 1800.0
"""Seconds after which a process counts as hanging, on a machine that does other things too."""
INTERRUPTED, REFUSED = 130, 3
"""How processes end that were told of Ctrl-C by KeyboardInterrupt, or that refuse to go on."""


class Kills(NamedTuple):
    """What became of a job.

    kills: how many signals ended a process.
    refused: runs that would not go on in the folder of a killed one, in one line of error.
    finished: runs that came to their end.
    seconds: that a run takes which is let alone, once it has begun.
    """

    kills: int
    refused: int
    finished: int
    seconds: float


def survive(
    name: str, kills: int, folder: Path, seed: int, by: signal.Signals = signal.SIGKILL
) -> Kills:
    """Ends processes of a job, each at a random moment; a run that ends in between starts anew.

    After each signal what is left must be in order, and each run that ends must have the outcome of
    one that was let alone.

    Raises:
        AssertionError: if that is not so, or a process hangs or fails.
    """
    job, moments = job_of(name), random.Random(seed)
    whole = folder / "whole"
    seconds = _process(name, whole, 0, None)
    assert isinstance(seconds, float)
    expected = job.outcome(whole)
    done = refused = finished = 0
    while done < kills or not finished:
        if finished > 10 * kills + 10:
            raise AssertionError(f"{name}: {finished} runs ended and {done} by {by.name}")
        run = folder / f"run_{refused + finished}"
        delay = moments.uniform(0, 0.6 * seconds) if done < kills else None
        ended = _process(name, run, 1 + done + refused + finished, delay, by)
        if ended == "killed":
            done += 1
            job.check(run)
        elif ended == "refused":
            refused += 1
        else:
            finished += 1
            if job.outcome(run) != expected:
                raise AssertionError(f"{name}: {run} has another outcome after {done} kills")
    return Kills(done, refused, finished, seconds)


def job_of(name: str) -> Job:
    """A job of `JOBS`, or a tutorial script."""
    return JOBS[name] if name in JOBS else scripts.job(name)


def _process(
    name: str,
    folder: Path,
    seed: int,
    delay: float | None,
    by: signal.Signals = signal.SIGKILL,
) -> float | str:
    """Seconds of a process of the job; "refused", or "killed" `delay` seconds after it began.

    Raises:
        AssertionError: if it hangs, fails, or ends otherwise than by the signal.
    """
    ours, theirs = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_run, args=(name, folder, seed, theirs))
    process.start()
    theirs.close()
    try:
        if not ours.poll(PATIENCE):
            raise AssertionError(f"{name}: a process has not begun within {PATIENCE} seconds")
        ours.recv()
        begun = time.monotonic()
        process.join(PATIENCE if delay is None else delay)
        if process.is_alive():
            if delay is None:
                raise AssertionError(f"{name}: a process hangs")
            assert process.pid is not None
            os.kill(process.pid, by)
            process.join(PATIENCE)
            if process.exitcode == (INTERRUPTED if by == signal.SIGINT else -by):
                return "killed"
            if process.is_alive():
                raise AssertionError(f"{name}: a process hangs after {by.name}")
        if process.exitcode == REFUSED:
            return "refused"
        if process.exitcode:
            raise AssertionError(f"{name}: a process ended with {process.exitcode}")
        return time.monotonic() - begun
    finally:
        process.kill()
        process.join()


def _run(name: str, folder: Path, seed: int, pipe: Connection) -> None:
    # A shell may have had them ignored, as nohup and its jobs in the background do.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for other in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_DFL)
    keras.utils.set_random_seed(1 if folder.name == "whole" or not folder.exists() else seed + 2)
    begun: Callable[[], None] = lambda: pipe.send("begun")  # noqa: E731
    try:
        job_of(name).run(folder, begun)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Refused as refusal:
        sys.exit(1 if "\n" in str(refusal) else REFUSED)
