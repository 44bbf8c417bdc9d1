"""Bad arguments for all public callables, each call in a process with bounds of time and memory.

python -m soak.bad_calls 500                      # 500 calls, and what is wrong with which
python -m soak.bad_calls 500 --only Laplace       # of the callables with that in their name
python -m soak.bad_calls 10000 --kept calls.json  # goes on where it was
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from soak import bounded
from soak.bad_values import bad
from soak.calls import Case, all_cases
from soak.calls.case import floats, parameters
from tfbdl import TrainingError
from tfbdl.inference import SamplingError

CALLS_PER_PROCESS = 400
"""After which a new one begins, so that compiled graphs do not fill the memory."""
SLOW = 0.2
"""How often a slow callable is chosen, where others are once."""

REFUSALS = (ValueError, TypeError, OSError)
DOCUMENTED = (TrainingError, SamplingError)
"""Errors of training and chains that leave the finite numbers, whose message names no argument."""


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


def attack(
    number: int, seed: int, only: str = "", kept: Path | None = None, first: int = 0
) -> list[Answer]:
    """The answers to so many calls with bad arguments, the same ones for the same seed.

    Args:
        number: the number of calls, those before the first included.
        seed: the seed of the callables, arguments and values.
        only: a part of the names of the callables.
        kept: a file of the answers, one a line; calls that it has are not made again.
        first: the number of the first call, counted from 0.
    """
    cases = [case for case in all_cases() if only in case.name and case.arguments]
    weights = [SLOW if case.slow else 1.0 for case in cases]
    names = [c.name for c in random.Random(seed).choices(cases, weights, k=number)]
    calls = [(name, seed + i) for i, name in enumerate(names)][first:]
    actual = _read(kept)[: len(calls)]
    while len(actual) < len(calls):
        part = calls[len(actual) :][:CALLS_PER_PROCESS]
        for one in _of_process(part):
            actual.append(one)
            _keep(kept, one)
    return actual


def _of_process(calls: list[tuple[str, int]]) -> Iterator[Answer]:
    """The answers of one process, of which the last may have killed it."""
    left = iter(calls)
    with tempfile.TemporaryDirectory() as folder:
        try:
            for given in bounded.answers(partial(_begin, folder), calls):
                next(left)
                yield given
        except bounded.Gone as gone:
            name, seed = next(left)
            yield Answer(str(gone), f"{name}, seed {seed}", "")


def _read(kept: Path | None) -> list[Answer]:
    if kept is None or not kept.exists():
        return []
    return [Answer(*json.loads(line)) for line in kept.read_text().splitlines()]


def _keep(kept: Path | None, answer: Answer) -> None:
    if kept is not None:
        with open(kept, "a") as file:
            file.write(json.dumps(answer) + "\n")


def _begin(folder: str) -> Callable[[tuple[str, int]], Answer]:
    """What answers calls in a process, in a folder, and silently."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    warnings.simplefilter("ignore")
    cases = {case.name: case for case in all_cases()}
    tempfile.tempdir = os.environ["TFBDL_DATA"] = folder  # so that nothing is downloaded
    os.chdir(folder)
    return lambda call: answer(cases[call[0]], call[1])


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
            result = case.run(**given)
        unending = [a for a in floats(result) if not np.isfinite(a).all()]
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


def report(first: int, number: int, seed: int) -> str:
    """The row of bad arguments: of the calls from the first, counted from 0, to that number.

    Raises:
        AssertionError: if an answer is wrong.
    """
    answers = attack(number, seed, first=first)
    wrong = [a for a in answers if not a.is_right]
    kinds = Counter(a.kind for a in answers)
    if wrong:
        lines = "\n".join(f"{a.kind}: {a.call}: {a.text[:300]}" for a in wrong[:30])
        raise AssertionError(f"{len(wrong)} wrong answers, {dict(kinds)}:\n{lines}")
    return f"{kinds['refusal']:,} refused in one line, {kinds['result']:,} finite results, 0 others"


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m soak.bad_calls")
    parser.add_argument("number", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--kept", type=Path)
    answers = attack(**vars(parser.parse_args()))
    for actual in answers:
        if not actual.is_right:
            print(f"{actual.kind} | {actual.call} | {actual.text[:400]!r}")
    print(dict(Counter(actual.kind for actual in answers)))


if __name__ == "__main__":
    _main()
