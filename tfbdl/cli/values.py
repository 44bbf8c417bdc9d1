"""Types of command-line arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tfbdl import arguments

T = TypeVar("T")


def parsed(check: Callable[[str, Any], T], word: str, value: Any) -> T:
    """The value of a flag after a check of `tfbdl.arguments`.

    Raises:
        argparse.ArgumentTypeError: with its message, to which argparse adds the flag.
    """
    try:
        return check(word, value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix(f"{word}=")) from None


def path(word: str) -> Path:
    """A path."""
    return parsed(arguments.path, "path", word)


def count(word: str) -> int:
    """An integer of at least 0."""
    return parsed(lambda name, value: arguments.integer(name, value, least=0), "it", _integer(word))


def seed(word: str) -> int:
    """A seed."""
    return parsed(arguments.seed, "it", _integer(word))


def _integer(word: str) -> Any:
    try:
        return int(word)
    except ValueError:
        return word


def check_regular(path: Path, instead: str) -> None:
    """Raises ValueError for what is there, but no file: a folder, a device, a pipe without end."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no file; {instead}")
