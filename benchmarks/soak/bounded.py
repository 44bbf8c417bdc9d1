"""Work in a process of its own, with bounds of time and memory."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

PATIENCE = 60.0
"""Seconds of a processor that an answer may take; ten times as many of the clock."""
START = 600.0
"""Seconds that a process may take before it answers."""
MEGABYTES = 2000
"""Megabytes that a process may hold beyond those at its start, and address twice as many."""

_CONTEXT = multiprocessing.get_context("spawn")
_ENVIRONMENT = {
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


class Gone(Exception):
    """How a process has ended before its last answer, or had to."""


def answers(begin: Callable[[], Callable[[Any], Any]], tasks: Sequence[Any]) -> Iterator[Any]:
    """What the function that `begin` gives in a new process answers to each task, one by one.

    Raises:
        Gone: if the process dies, or breaks a bound.
    """
    ours, theirs = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_work, args=(begin, tasks, theirs), daemon=True)
    with _few_threads():
        process.start()
    theirs.close()
    try:
        allowed = _received(process, ours, START, float("inf")) + MEGABYTES
        for _ in tasks:
            yield _received(process, ours, PATIENCE, allowed)
    finally:
        process.kill()
        process.join()


def _work(
    begin: Callable[[], Callable[[Any], Any]], tasks: Sequence[Any], pipe: Connection
) -> None:
    answer = begin()
    space = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (space + 2 * MEGABYTES * 2**20, resource.RLIM_INFINITY))
    pipe.send(_resident(os.getpid()))
    for task in tasks:
        pipe.send(answer(task))


def _received(process: Any, pipe: Connection, patience: float, megabytes: float) -> Any:
    begun, used = time.monotonic(), _used(process.pid)
    while not pipe.poll(0.05):
        if not process.is_alive():
            raise Gone(_ended(process))
        waited = time.monotonic() - begun
        if _used(process.pid) - used > patience or waited > 10 * patience:
            raise Gone(f"no answer within {patience:g} seconds")
        if _resident(process.pid) > megabytes:
            raise Gone(f"more than {MEGABYTES} MB")
    try:
        return pipe.recv()
    except EOFError:
        raise Gone(_ended(process)) from None


def _ended(process: Any) -> str:
    process.join()
    return f"the process ended with {process.exitcode}"


def _resident(pid: int) -> float:
    """Megabytes that a process holds."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except OSError:
        return 0.0
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _used(pid: int) -> float:
    """Seconds of processors that a process has used."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def _few_threads() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _ENVIRONMENT}
    os.environ.update(_ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
