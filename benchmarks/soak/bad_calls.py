"""Bad arguments for all public callables, each call in a process with bounds of time and memory.

python -m soak.bad_calls 500 0            # 500 calls with seed 0, and what is wrong with which
python -m soak.bad_calls 500 0 Laplace    # of the callables with that in their name
"""

from __future__ import annotations

import contextlib
import io
import math
import multiprocessing
import os
import random
import re
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from soak.bad_values import bad
from soak.calls import Case, all_cases
from soak.calls.case import floats, parameters
from tfbdl import TrainingError
from tfbdl.inference import SamplingError

CONTEXT = multiprocessing.get_context("spawn")
PATIENCE = 60.0
"""Seconds of a call after which it counts as hanging."""
MEGABYTES = 2000
"""That a worker may hold beyond what it holds when it begins."""
CALLS_PER_WORKER = 400
"""After which a new one begins, so that compiled graphs do not fill the memory."""

REFUSALS = (ValueError, TypeError, OSError)
DOCUMENTED = (TrainingError, SamplingError)
"""Of training and chains that leave the finite numbers, whose message names no argument."""


class Answer(NamedTuple):
    """What became of a call.

    kind: "result", "refusal", or what is wrong.
    call: the callable and its changed arguments.
    text: the message, or the error that is none.
    """

    kind: str
    call: str
    text: str

    @property
    def is_right(self) -> bool:
        """Whether it is a finite result of the documented shape, or one line."""
        return self.kind in ("result", "refusal")


def attack(number: int, seed: int, only: str = "", slow: float = 1.0) -> list[Answer]:
    """The answers to so many calls with bad arguments, the same ones for the same seed.

    Args:
        number: of calls.
        seed: of the callables, arguments and values.
        only: a part of the names of the callables.
        slow: how often a slow callable is chosen, where others are once.
    """
    cases = [case for case in all_cases() if only in case.name and case.arguments]
    weights = [slow if case.slow else 1.0 for case in cases]
    names = [c.name for c in random.Random(seed).choices(cases, weights, k=number)]
    answers: list[Answer] = []
    while len(answers) < number:
        begin = len(answers)
        part = names[begin : begin + CALLS_PER_WORKER]
        answers += _of_worker([(name, seed + begin + i) for i, name in enumerate(part)])
    return answers


def _of_worker(calls: list[tuple[str, int]]) -> list[Answer]:
    """The answers of one process, of which the last may have killed it."""
    ours, theirs = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_work, args=(calls, theirs), daemon=True)
    with _few_threads():
        process.start()
    theirs.close()
    answers: list[Answer] = []
    try:
        allowed = _received(process, ours, 10 * PATIENCE, math.inf) + MEGABYTES
        for name, seed in calls:
            try:
                answers.append(_received(process, ours, PATIENCE, allowed))
            except _Gone as gone:
                return [*answers, Answer(str(gone), f"{name}, seed {seed}", "")]
    finally:
        process.kill()
        process.join()
    return answers


class _Gone(Exception):
    """How a worker has ended, or has to."""


def _received(process: Any, pipe: Connection, patience: float, megabytes: float) -> Any:
    begun = time.monotonic()
    while not pipe.poll(0.05):
        if not process.is_alive():
            process.join()
            raise _Gone(f"the process ended with {process.exitcode}")
        if time.monotonic() - begun > patience:
            raise _Gone(f"no answer within {patience:.0f} seconds")
        if _resident(process.pid) > megabytes:
            raise _Gone(f"more than {MEGABYTES} MB")
    try:
        return pipe.recv()
    except EOFError:
        process.join()
        raise _Gone(f"the process ended with {process.exitcode}") from None


def _resident(pid: int) -> float:
    """Megabytes that a process holds."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return 0.0


@contextlib.contextmanager
def _few_threads() -> Any:
    names = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "TF_CPP_MIN_LOG_LEVEL")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(zip(names, ("1", "1", "3"), strict=True))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _work(calls: list[tuple[str, int]], pipe: Connection) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    warnings.simplefilter("ignore")
    cases = {case.name: case for case in all_cases()}
    space = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (space + 2 * MEGABYTES * 2**20, resource.RLIM_INFINITY))
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        os.environ["TFBDL_DATA"] = folder  # so that nothing is downloaded
        os.chdir(folder)
        pipe.send(_resident(os.getpid()))
        for name, seed in calls:
            pipe.send(answer(cases[name], seed))


def answer(case: Case, seed: int) -> Answer:
    """What comes of a case with one or two bad arguments."""
    chance = random.Random(seed)
    names = sorted(case.arguments)
    changed = chance.sample(names, min(len(names), 2 if chance.random() < 0.15 else 1))
    keras.utils.set_random_seed(0)
    given = case.good()
    given |= {name: bad(chance, name, given[name]) for name in changed}
    text = ", ".join(f"{name}={_shown(given[name])}" for name in changed)
    call = f"{case.name}: {text} (seed {seed})"
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            found = case.run(**given)
        unending = [a for a in floats(found) if not np.isfinite(a).all()]
        return Answer("not finite" if unending else "result", call, "")
    except AssertionError as error:
        return Answer("wrong shape", call, str(error))
    except DOCUMENTED as error:
        return Answer("several lines" if "\n" in str(error) else "refusal", call, str(error))
    except BaseException as error:
        return Answer(
            _judged(error, case, [given[name] for name in changed]),
            call,
            f"{type(error).__name__}: {error}",
        )


def _judged(error: BaseException, case: Case, values: list[Any]) -> str:
    """Whether an error is one line that names an argument, or the path that was one."""
    message = str(error)
    if not isinstance(error, REFUSALS) or isinstance(error, UnicodeError):
        return "another error"
    if "\n" in message:
        return "several lines"
    names = {*case.arguments, *parameters(case.target)}
    names |= {str(v) for v in values if isinstance(v, (str, Path)) and len(str(v)) > 3}
    patterns = [*map(re.escape, names), *case.called.values()]
    named = any(re.search(rf"(?<!\w)(?:{pattern})(?!\w)", message) for pattern in patterns)
    return "refusal" if named else "names no argument"


def _shown(value: Any) -> str:
    try:
        text = " ".join(repr(value).split())
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 80 else f"{text[:80]}..."


def report(number: int, seed: int) -> str:
    """The row of bad arguments.

    Raises:
        AssertionError: if an answer is wrong.
    """
    answers = attack(number, seed)
    wrong = [a for a in answers if not a.is_right]
    kinds = Counter(a.kind for a in answers)
    if wrong:
        lines = "\n".join(f"{a.kind}: {a.call}: {a.text[:300]}" for a in wrong[:30])
        raise AssertionError(f"{len(wrong)} wrong answers, {dict(kinds)}:\n{lines}")
    return f"{kinds['refusal']:,} refused in one line, {kinds['result']:,} finite results, 0 others"


def _main(number: int, seed: int, only: str = "") -> None:
    answers = attack(number, seed, only)
    for found in answers:
        if not found.is_right:
            print(f"{found.kind} | {found.call} | {found.text[:400]!r}")
    print(dict(Counter(found.kind for found in answers)))


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:4])
