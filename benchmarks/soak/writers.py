"""Two processes that write into one folder, begun at once or one after the other."""

from __future__ import annotations

import random
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

import keras

from soak.jobs import Refused
from soak.kills import CONTEXT, PATIENCE, job_of

TOGETHER = {"results"}
"""Jobs whose files each are written as a whole, so that two may write them."""


def two(name: str, times: int, folder: Path, seed: int) -> Counter[str]:
    """How pairs of processes end that were begun at moments less than a run apart.

    One of each pair is done, and the other refused in one line, or done after it; what is left has
    the outcome of a run that was alone.

    Raises:
        AssertionError: if that is not so, or a process hangs.
    """
    job, moments, actual = job_of(name), random.Random(seed), Counter[str]()
    begun = time.monotonic()
    keras.utils.set_random_seed(1)
    job.run(folder / "whole", lambda: None)
    seconds, expected = time.monotonic() - begun, job.outcome(folder / "whole")
    for i in range(times):
        run = folder / f"run_{i}"
        ends = _pair(name, run, moments.choice([0.0, moments.uniform(0, seconds)]))
        job.check(run)
        if "done" not in ends or any(end not in ("done", "refused") for end in ends):
            raise AssertionError(f"{name}: two processes ended with {ends}")
        if "refused" in ends and name in TOGETHER:
            raise AssertionError(f"{name}: of two processes one was refused")
        if job.outcome(run) != expected:
            raise AssertionError(f"{name}: two processes gave another outcome than one")
        actual[" and ".join(sorted(ends))] += 1
    return actual


def _pair(name: str, folder: Path, delay: float) -> list[str]:
    pipes, processes = [], []
    for wait in (0.0, delay):
        ours, theirs = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=_run, args=(name, folder, wait, theirs))
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    try:
        return [
            pipe.recv() if pipe.poll(PATIENCE) else f"hanging after {PATIENCE} s" for pipe in pipes
        ]
    finally:
        for process in processes:
            process.join(1.0)
            process.kill()
            process.join()


def _run(name: str, folder: Path, wait: float, pipe: Connection) -> None:
    keras.utils.set_random_seed(1)
    time.sleep(wait)
    try:
        job_of(name).run(folder, lambda: None)
    except (OSError, ValueError, Refused) as error:
        pipe.send("refused" if _is_refusal(str(error)) else repr(error))
    except BaseException as error:
        pipe.send(repr(error))
        raise
    else:
        pipe.send("done")


def _is_refusal(text: str) -> bool:
    known = ("another run writes", "already has a log")
    return "\n" not in text and any(words in text for words in known)
