"""Objects as the calls that make them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf


def as_call(made: object) -> str:
    """`made` as a call, with the arguments that are not defaults, each kept under its own name."""
    shown = ", ".join(
        f"{name}={_shown(getattr(made, name))}"
        for name, default in arguments_of(type(made)).items()
        if not _is_default(getattr(made, name), default)
    )
    return f"{type(made).__name__}({shown})"


def arguments_of(kind: type) -> dict[str, Any]:
    """The arguments of a constructor and their defaults, but for `name` and `**kwargs`."""
    parameters = inspect.signature(kind).parameters
    taken = {name: p for name, p in parameters.items() if p.kind is not p.VAR_KEYWORD}
    return {name: p.default for name, p in taken.items() if name != "name"}


def _is_default(value: Any, default: Any) -> bool:
    return np.ndim(value) == 0 and bool(value == default)


def _shown(value: Any) -> str:
    if isinstance(value, keras.Model):
        return value.name
    if isinstance(value, (np.ndarray, tf.Tensor)):
        shape = tuple(value.shape)
        return f"{float(value):g}" if not shape else f"<array of shape {shape}>"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_shown(part)}" for key, part in value.items()) + "}"
    if dataclasses.is_dataclass(value):
        settings = ((f, getattr(value, f.name)) for f in dataclasses.fields(value))
        shown = (f"{f.name}={_shown(v)}" for f, v in settings if not _is_default(v, f.default))
        return f"{type(value).__name__}({', '.join(shown)})"
    if inspect.isfunction(value):
        return value.__name__
    return type(value).__name__ if repr(value).startswith("<") else repr(value)
