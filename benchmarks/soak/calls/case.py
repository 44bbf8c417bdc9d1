"""What is known of a public callable: good arguments, other good ones, and what a call shows."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

N = 6
X = np.random.default_rng(0).normal(size=(N, 4)).astype("float32")
LABELS = np.arange(N) % 3
TARGETS = X[:, :1] - 0.5 * X[:, 1:2]
WEIGHTS = np.arange(N) + 0.5
ROUNDING = 1e-5
"""The share of a number by which two runs of the same may differ."""


class Made(NamedTuple):
    """A value that is made anew for each call."""

    make: Callable[[], Any]


class Wrong(NamedTuple):
    """A value to refuse, in the place of another good value.

    For arguments that say how something is computed and not what, so that another good value shows
    nowhere.
    """

    value: Any


class Case(NamedTuple):
    """A public callable in one mode.

    name: as users write it, and the mode.
    target: the callable whose signature says which arguments there are.
    run: takes the arguments, calls, uses what comes of it, and gives what is to be seen: arrays,
        configs, text. It raises AssertionError where a shape is not the documented one.
    arguments: by name, each a good value and another good one.
    called: regular expressions of what else names an argument in messages.
    slow: whether a call takes more than some 0.2 seconds.
    """

    name: str
    target: Callable[..., Any]
    run: Callable[..., Any]
    arguments: Mapping[str, tuple[Any, Any]]
    called: Mapping[str, str] = {}
    slow: bool = False

    def good(self) -> dict[str, Any]:
        """The good arguments, those that are made anew made now."""
        return {name: made(value) for name, (value, _) in self.arguments.items()}


def made(value: Any) -> Any:
    """The value, made now if it is one to be made."""
    return value.make() if isinstance(value, Made) else value


def parameters(target: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The arguments of a callable by name, those behind `**kwargs` of classes of tfbdl too.

    Where a method of models passes arguments on to Keras' own method, Keras checks them.
    """
    if not inspect.isclass(target):
        of_keras = _of_keras(target)
        return {n: p for n, p in _named(target).items() if n not in of_keras}
    actual: dict[str, inspect.Parameter] = {}
    for own in (c.__init__ for c in target.__mro__ if "__init__" in vars(c)):
        if not getattr(own, "__module__", "").startswith("tfbdl"):
            break
        inner = own is not target.__init__
        named = {n: p for n, p in _named(own).items() if not (inner and _is_positional(p))}
        actual = {**named, **actual}
        if not any(p.kind is p.VAR_KEYWORD for p in inspect.signature(own).parameters.values()):
            break
    return actual


def _of_keras(method: Callable[..., Any]) -> Iterable[str]:
    own = getattr(keras.Model, method.__name__, None)
    of_models = method.__module__.startswith("tfbdl.models")
    return inspect.signature(own).parameters if of_models and own is not None else ()


def _named(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    many = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    given = inspect.signature(function).parameters
    return {n: p for n, p in given.items() if p.kind not in many and n != "self"}


def _is_positional(parameter: inspect.Parameter) -> bool:
    """Whether a class that is derived has to pass it on itself."""
    return parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY


STEPS: dict[str, tuple[Any, Any]] = {"steps": (None, Wrong(2))}
WEIGHTED: dict[str, tuple[Any, Any]] = {
    "sample_weight": (None, WEIGHTS),
    "class_weight": (None, {0: 2.0}),
    **STEPS,
}
"""How much examples count."""
HELD_OUT: dict[str, tuple[Any, Any]] = {
    "validation_split": (0.0, 0.5),
    "validation_data": (None, (X[:3], LABELS[:3])),
    "validation_steps": (None, Wrong(2)),
}
"""Data to evaluate on while a model trains."""


def is_true(value: Any) -> bool:
    """Whether a flag is set, in Python or NumPy."""
    return isinstance(value, (bool, np.bool_)) and bool(value)


def shaped(values: Any, *shape: int) -> np.ndarray:
    """The array, if it has this shape.

    Raises:
        AssertionError: if it has not.
    """
    array = np.asarray(values)
    assert array.shape == shape, f"a result has shape {array.shape}, documented is {shape}"
    return array


def seen(value: Any) -> Any:
    """A result in a form in which two can be compared: text, numbers, and tuples of these."""
    if isinstance(value, (str, bool, int, type(None))):
        return value
    if isinstance(value, Mapping):
        return tuple((str(key), seen(part)) for key, part in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(seen(part) for part in value)
    if hasattr(value, "get_config"):
        return type(value).__name__, seen(value.get_config())
    if isinstance(value, (type, Path)) or callable(value):
        return getattr(value, "__name__", str(value))
    array = np.asarray(value)
    exactly = array.shape, str(array.dtype), array.tobytes()
    return UpToRounding(array) if array.dtype.kind == "f" else exactly


class UpToRounding:
    """An array, and the same as another whose elements differ by rounding alone."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UpToRounding) or self.array.shape != other.array.shape:
            return False
        is_close = np.allclose(self.array, other.array, rtol=ROUNDING, atol=0.0, equal_nan=True)
        return self.array.dtype == other.array.dtype and is_close

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{self.array.dtype}{self.array}"


def floats(value: Any) -> Iterator[np.ndarray]:
    """All arrays of floating numbers in a result."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from floats(part)
    elif isinstance(value, (float, np.ndarray, np.floating, tf.Tensor, tf.Variable)):
        array = np.asarray(value)
        if array.dtype.kind == "f":
            yield array


def folder() -> Path:
    """A new folder."""
    return Path(tempfile.mkdtemp(prefix="soak_"))


def answers(actual: Any) -> Any:
    """What is to be seen of any result of an inference."""
    if hasattr(actual, "epistemic_variance"):
        return [actual.mean, actual.stddev, actual.outputs, actual.num_samples]
    if hasattr(actual, "members"):
        return [actual.members, actual(X)]
    return list(floats(actual)) or actual
