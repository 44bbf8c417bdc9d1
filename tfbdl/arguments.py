"""Checks of arguments; each refusal is one line: the argument, its value, what to do."""

from __future__ import annotations

import errno
import inspect
import math
import numbers
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

LARGEST = 2**31 - 1
"""The largest integer that TensorFlow counts with."""

SMALLEST_SCALE, LARGEST_SCALE = 1e-15, 1e15
"""The scales whose square float32 holds, and the sum of many of them."""

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 80


def shown(value: Any) -> str:
    """A value as messages show it: in one line, cut short."""
    try:
        return " ".join(_REPR.repr(value).split())
    except Exception:  # a class of the user's own may raise anything, an integer may be too long
        return f"<{type(value).__name__}>"


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or of its part that Keras emphasises."""
    emphasised = re.search(r"\x1b\[1m(.*?)\x1b\[0m", str(error), re.DOTALL)
    lines = (emphasised.group(1) if emphasised else str(error)).strip().splitlines()
    line = re.sub(r"\{\{.*?\}\} |\[Op:.*", "", lines[0]).strip() if lines else ""
    return line or type(error).__name__


def boolean(name: str, value: Any) -> bool:
    """`value`, if it is True or False (of Python or NumPy).

    Raises:
        ValueError: if it is not.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name}={shown(value)} must be True or False")
    return bool(value)


def integer(
    name: str, value: Any, meaning: str = "", *, least: int | None = None, most: int = LARGEST
) -> int:
    """`value`, if it is an integer (of Python or NumPy, and no bool) in a range.

    Args:
        name: the name of the argument.
        value: the value that was given.
        meaning: the meaning of the integer; it ends the message.
        least: the smallest integer allowed; by default as far below 0 as `most` is above it.
        most: the largest integer allowed.

    Raises:
        ValueError: if it is none, or out of the range.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ValueError(f"{name}={shown(value)} must be an integer{meaning}")
    least = -most if least is None else least
    whole = int(value)
    if whole < least:
        raise ValueError(f"{name}={shown(value)} must be at least {least}{meaning}")
    if whole > most:
        raise ValueError(f"{name}={shown(value)} must be at most {most}{meaning}")
    return whole


def positive_integer(name: str, value: Any, meaning: str = "", *, most: int = LARGEST) -> int:
    """`value`, if it is an integer greater than 0 and at most `most`; `meaning` ends the message.

    Raises:
        ValueError: if it is not.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value <= 0:
        raise ValueError(f"{name}={shown(value)} must be a positive integer{meaning}")
    return integer(name, value, meaning, least=1, most=most)


def seed(name: str, value: Any) -> int:
    """`value`, if it is an integer of 64 bits, with or without a sign.

    Raises:
        ValueError: if it is not.
    """
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or not -(2**63) <= value < 2**64:
        raise ValueError(f"{name}={shown(value)} must be an integer of 64 bits")
    return int(value)


def generator(name: str, value: Any) -> np.random.Generator:
    """NumPy's generator of the `seed` that is given.

    Raises:
        ValueError: if it is none.
    """
    return np.random.default_rng(seed(name, value) % 2**64)


def optional(check: Callable[[str, Any], T], name: str, value: Any) -> T | None:
    """None, or the result of `check(name, value)`."""
    return None if value is None else check(name, value)


def number(name: str, value: Any, holds: Callable[[float], bool], requirement: str) -> float:
    """`value`, if it is a real number with `holds(value)`, as `requirement` says in words.

    Raises:
        ValueError: if it is not.
    """
    try:
        is_number = isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
        fits = is_number and bool(holds(float(value)))
    except OverflowError:  # an integer that no float holds
        fits = False
    if not fits:
        raise ValueError(f"{name}={shown(value)} must be {requirement}")
    return float(value)


def positive(name: str, value: Any, requirement: str = "a positive number") -> float:
    """`value`, if it is a positive number whose square float32 holds.

    Raises:
        ValueError: if it is not.
    """
    real = number(name, value, lambda v: 0 < v < math.inf, requirement)
    if not SMALLEST_SCALE <= real <= LARGEST_SCALE:
        raise ValueError(
            f"{name}={shown(value)} must be between {SMALLEST_SCALE:g} and {LARGEST_SCALE:g}, "
            "where float32 holds its square"
        )
    return real


def not_negative(name: str, value: Any, requirement: str = "at least 0") -> float:
    """`value`, if it is 0 or `positive`.

    Raises:
        ValueError: if it is neither.
    """
    real = number(name, value, lambda v: 0 <= v < math.inf, requirement)
    return positive(name, value, requirement) if real else real


def option(name: str, value: Any, known: Iterable[str]) -> str:
    """`value`, if it is one of the `known` words.

    Raises:
        ValueError: if it is not; the message lists them.
    """
    if not isinstance(value, str) or value not in known:
        names = ", ".join(sorted(known))
        raise ValueError(f"{name}={shown(value)} is unknown; choose one of: {names}")
    return value


def verbosity(name: str, value: Any) -> int:
    """`value`, if it is 0 or 1.

    Raises:
        ValueError: if it is neither.
    """
    if not isinstance(value, (numbers.Integral, np.bool_)) or value not in (0, 1):
        raise ValueError(f"{name}={shown(value)} must be 0, for silence, or 1")
    return int(value)


def instance(name: str, value: Any, kind: type[T] | tuple[type, ...], wanted: str) -> T:
    """`value`, if it is an object of a class; `wanted` says in words what to give.

    Raises:
        ValueError: if it is not.
    """
    if not isinstance(value, kind):
        raise ValueError(f"{name}={shown(value)} must be {wanted}")
    return value  # type: ignore[return-value]


def text(name: str, value: Any) -> str:
    """`value`, if it is text in one line.

    Raises:
        ValueError: if it is not.
    """
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"{name}={shown(value)} must be text in one line")
    return value


def function(
    name: str, value: Any, wanted: str = "a function", *, takes: int | None = None
) -> Callable[..., Any]:
    """`value`, if it can be called.

    Args:
        name: the name of the argument.
        value: the value that was given.
        wanted: a description of the values to give.
        takes: the number of arguments that it is called with; None does not ask.

    Raises:
        ValueError: if it cannot be called, or not with so many arguments.
    """
    if not callable(value) or not (takes is None or _takes(value, takes)):
        raise ValueError(f"{name}={shown(value)} must be {wanted}")
    return value


def _takes(value: Callable[..., Any], number: int) -> bool:
    try:
        inspect.signature(value).bind(*range(number))
    except TypeError:
        return False
    except ValueError:  # the callable does not say what it takes
        return True
    return True


def path(name: str, value: Any) -> Path:
    """`value` as a path, whether there is anything or not.

    Raises:
        ValueError: if it is no text, empty, or nothing that could be there.
    """
    if not isinstance(value, (str, os.PathLike)) or value == "":
        raise ValueError(f"{name}={shown(value)} must be the path of a file or folder")
    if len(os.fsdecode(value).splitlines()) > 1 or os.fsdecode(value)[-1:] in "\r\n":
        raise ValueError(f"{name}={shown(value)} has a line break; name another path")
    try:
        os.stat(value)
    except ValueError as error:  # it has characters that no path has
        raise ValueError(f"{name}={shown(value)} can be no path: {first_line(error)}") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise ValueError(f"{name}={shown(value)} is too long for a path") from None
    return Path(value)


def words(name: str, value: Any, wanted: str) -> list[str]:
    """`value` as a list, if it is a sequence of strings.

    Raises:
        ValueError: if it is not; `wanted` says what to give.
    """
    is_list = isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, (str, bytes))
    if not is_list or not all(isinstance(word, str) for word in value):
        raise ValueError(f"{name}={shown(value)} must be {wanted}")
    return list(value)
