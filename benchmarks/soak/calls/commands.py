"""The command line: all arguments as words."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from soak.calls.case import Case, Made, X, folder
from soak.calls.networks import kept_network
from soak.calls.training import log_of
from tfbdl import cli


def _model() -> Path:
    path = folder() / "model.keras"
    kept_network().save(path)
    return path


def _inputs(shift: float = 0.0) -> Path:
    path = folder() / "x.npz"
    np.savez(path, x=X + shift)
    return path


def _run(*words: Any, **flags: Any) -> Any:
    """What a command prints and writes; what it says of an error, as an exception."""
    given = [(f"--{name}", _word(value)) for name, value in flags.items() if value is not None]
    argv = [*map(str, words), *(word for flag in given for word in flag)]
    shown, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(said):
        try:
            code = cli.main(argv)
        except SystemExit as ended:
            code = ended.code
    if code:
        raise ValueError(said.getvalue().removesuffix("\n"))
    lines = shown.getvalue().splitlines()
    return [line for line in lines if not line.startswith(("figure:", "output:"))]


def _word(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # of an object that has no text
        return type(value).__name__


def cases() -> Iterator[Case]:
    """Each command."""
    figure = (Made(lambda: folder() / "a.png"), Made(lambda: folder() / "nowhere" / "a.png"))
    yield Case(
        "tfbdl log",
        cli.main,
        lambda paths, figure: [line.split()[1:] for line in _run("log", paths, figure=figure)],
        {"paths": (Made(lambda: log_of(2)), Made(lambda: log_of(3))), "figure": figure},
        called={"paths": "expected|PATH|give a train.log file", "figure": "--figure"},
        slow=True,
    )
    output = (Made(lambda: folder() / "a.npz"), Made(lambda: folder() / "nowhere" / "a.npz"))
    yield Case(
        "tfbdl predict",
        cli.main,
        lambda model, inputs, **flags: _run("predict", model, inputs, **flags),
        {
            "model": (Made(_model), Made(lambda: log_of(2))),
            "inputs": (Made(_inputs), Made(lambda: _inputs(1.0))),
            "samples": (3, 2),
            "seed": (0, 1),
            "output": output,
        },
        called={"model": "MODEL.keras", "inputs": "FILE.npz"},
        slow=True,
    )
    yield Case(
        "tfbdl summary",
        cli.main,
        lambda model: _run("summary", model),
        {"model": (Made(_model), Made(lambda: log_of(2)))},
        called={"model": "MODEL.keras"},
        slow=True,
    )
