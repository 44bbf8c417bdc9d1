"""Damaged files for all readers: by Hypothesis, and by Atheris where coverage can lead the way.

python -m soak.fuzz train.log 60 seed     # Atheris, for 60 seconds, in a process of its own
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import strategies as st

from soak import readers
from soak.readers import Reader, check, in_zip, of_zip

TRACED = ("IDX", "npz", "UCI index", "train.log")
"""Readers that are Python all through, so that Atheris sees which way a file takes."""

VALUES = (None, True, -1, 0, 7, 1e308, "", "x", "float64", "tfbdl>Foo", [], {}, [None])
"""What is put in the place of a value of a config."""


def by_hypothesis(reader: Reader, examples: int, seed: int) -> Counter[str]:
    """How many of so many damaged files were read and refused.

    Raises:
        AssertionError: at the smallest file that is found to be neither.
    """
    counts: Counter[str] = Counter()

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(damaged(reader.sample))
    def one(content: bytes) -> None:
        counts[check(reader, content)] += 1

    one()
    return counts


@st.composite
def damaged(draw: st.DrawFn, sample: bytes) -> bytes:
    """A file with damage: to its bytes, or to those or the JSON of a member of an archive."""
    members = in_zip(sample)
    kind = draw(st.sampled_from(["bytes", "noise", *(("member", "config") if members else ())]))
    if kind == "noise":
        return draw(st.binary(max_size=300))
    if kind == "bytes":
        return draw(edited(sample))
    name = draw(st.sampled_from(sorted(members)))
    values = _json(members[name]) if kind == "config" else None
    if values is None:
        return of_zip({**members, name: draw(edited(members[name]))})
    container, key = draw(st.sampled_from(_places(values)))
    container[key] = draw(st.sampled_from(VALUES))
    return of_zip({**members, name: json.dumps(values).encode()})


@st.composite
def edited(draw: st.DrawFn, content: bytes) -> bytes:
    """Some bytes changed, cut out, put in or doubled."""
    result = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(result)))
        stop = min(start + draw(st.integers(0, 60)), len(result))
        match draw(st.sampled_from(["change", "cut", "insert", "double", "end"])):
            case "change":
                result[start : start + 1] = draw(st.binary(min_size=1, max_size=1))
            case "cut":
                del result[start:stop]
            case "insert":
                result[start:start] = draw(st.binary(max_size=20))
            case "double":
                result[start:start] = result[start:stop]
            case "end":
                del result[start:]
    return bytes(result)


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None


def _places(values: Any) -> list[tuple[Any, Any]]:
    """All (container, key) of nested lists and dictionaries."""
    pairs = values.items() if isinstance(values, dict) else enumerate(values)
    places = []
    for key, value in pairs:
        places.append((values, key))
        if isinstance(value, (dict, list)):
            places += _places(value)
    return places


def by_atheris(name: str, seconds: int, seed: int) -> str:
    """What Atheris reports of so many seconds with a reader; where it is not installed, that.

    Raises:
        AssertionError: if it found a file that is neither read nor refused.
    """
    if find_spec("atheris") is None:
        return "not installed"
    process = subprocess.run(
        [sys.executable, "-m", "soak.fuzz", name, str(seconds), str(seed)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=seconds + 300,
        check=False,
    )
    lines = process.stderr.strip().splitlines()
    if process.returncode:
        raise AssertionError(f"{name}: " + "\n".join(lines[-30:]))
    return next(line for line in reversed(lines) if line.startswith("Done "))


def _atheris(name: str, seconds: int, seed: int) -> None:
    import atheris  # noqa: PLC0415

    reader = readers.readers()[name]
    for module in ("idx", "npz", "uci", "published"):
        _instrument(atheris, f"tfbdl.data.{module}")
    _instrument(atheris, "tfbdl.training.log")

    def one(content: bytes) -> None:
        check(reader, content)

    def mutate(content: bytes, size: int, seed: int) -> bytes:
        """Atheris' own changes, with edits of a good file now and then."""
        start = content or reader.sample
        return atheris.Mutate(start if seed % 8 else reader.sample, size)

    flags = [f"-max_total_time={seconds}", f"-seed={seed}", "-max_len=4096", "-timeout=20"]
    atheris.Setup([sys.argv[0], *flags], one, custom_mutator=mutate)
    atheris.Fuzz()


def _instrument(atheris: Any, module: str) -> None:
    """Lets Atheris see the branches that the functions of a module take."""
    names = vars(sys.modules[module])
    for name, function in list(names.items()):
        if getattr(function, "__module__", None) == module and callable(function):
            names[name] = _instrumented(atheris, function)


def _instrumented(atheris: Any, thing: Any) -> Any:
    if isinstance(thing, type):
        for name, method in list(vars(thing).items()):
            if hasattr(method, "__code__"):
                setattr(thing, name, atheris.instrument_func(method))
        return thing
    return atheris.instrument_func(thing)


if __name__ == "__main__":
    _atheris(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
