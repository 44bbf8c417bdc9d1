"""Objects as the calls that make them."""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

_NO_VALUES = (None, inspect.Parameter.empty, dataclasses.MISSING)
"""Defaults that are told by identity, so that no data are compared with them."""


def as_call(made: object, kept: Mapping[str, Any] = MappingProxyType({})) -> str:
    """`made` as a call, with the arguments that are not defaults.

    Each is kept under its own name, as an attribute or in `kept`.
    """
    given = {
        name: (kept[name] if name in kept else getattr(made, name), default)
        for name, default in arguments_of(type(made)).items()
    }
    shown = ", ".join(
        f"{name}={_shown(value)}"
        for name, (value, default) in given.items()
        if not _is_default(value, default)
    )
    return f"{type(made).__name__}({shown})"


def arguments_of(kind: type) -> dict[str, Any]:
    """The arguments of a constructor and their defaults, but for `name` and `**kwargs`."""
    parameters = inspect.signature(kind).parameters
    taken = {name: p for name, p in parameters.items() if p.kind is not p.VAR_KEYWORD}
    return {name: p.default for name, p in taken.items() if name != "name"}


def _is_default(value: Any, default: Any) -> bool:
    if any(default is none for none in _NO_VALUES):
        return value is default
    return np.ndim(value) == 0 and bool(value == default)


def _shown(value: Any) -> str:
    if isinstance(value, (keras.Model, os.PathLike)):
        return value.name if isinstance(value, keras.Model) else repr(os.fspath(value))
    if hasattr(value, "iloc") or isinstance(value, (np.ndarray, tf.Tensor)):
        return _array(value)
    if type(value) in (list, tuple) or isinstance(value, Mapping):
        return _several(value)
    if dataclasses.is_dataclass(value):
        settings = ((f, getattr(value, f.name)) for f in dataclasses.fields(value))
        shown = (f"{f.name}={_shown(v)}" for f, v in settings if not _is_default(v, f.default))
        return f"{type(value).__name__}({', '.join(shown)})"
    if inspect.isfunction(value):
        return value.__name__
    return type(value).__name__ if repr(value).startswith("<") else repr(value)


def _array(value: Any) -> str:
    shape = tuple(value.shape)
    kind = type(value).__name__ if hasattr(value, "iloc") else "array"
    return f"<{kind} of shape {shape}>" if shape else f"{float(value):g}"


def _several(values: Any) -> str:
    if isinstance(values, Mapping):
        return "{" + ", ".join(f"{key!r}: {_shown(part)}" for key, part in values.items()) + "}"
    parts = ", ".join(map(_shown, values))
    if isinstance(values, list):
        return f"[{parts}]"
    return f"({parts},)" if len(values) == 1 else f"({parts})"
