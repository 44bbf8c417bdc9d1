"""What an object is now, to be compared with what it is later, whatever changes inside it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

PLAIN = (bool, int, float, str, bytes, type(None))
_LIBRARIES = ("keras", "tensorflow", "tfbdl", "numpy", "tensorflow_probability")
_DEPTH = 4
"""How far into objects one looks: beyond, the same object counts as unchanged."""


def snapshot(value: Any, depth: int = _DEPTH) -> Any:
    """A value that is equal to a later snapshot if nothing has changed.

    Collections and arrays are compared by what they hold, objects by their identity and by what
    they hold: those of a library by their config, which leaves out what it notes for itself. The
    values of variables are no part of it; nor are tensors of a graph, which a call has left behind.
    """
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, (keras.Variable, tf.Variable)):
        return _Same(value)
    is_tensor = tf.is_tensor(value)
    if keras.backend.is_keras_tensor(value) or (is_tensor and not hasattr(value, "numpy")):
        return _Anything()
    if isinstance(value, (np.ndarray, np.generic)) or is_tensor:
        return _of_array(value)
    if depth and isinstance(value, (list, tuple, set, frozenset, Mapping)):
        return type(value), _of_collection(value, depth - 1)
    return _Same(value), _held_by(value, depth - 1) if depth else None


class _Anything:
    """Equal to whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class _Same:
    """Equal for one object alone, which it keeps, so that no other comes in its place."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)


def _of_array(value: Any) -> Any:
    if tf.is_tensor(value) and (value.dtype in (tf.resource, tf.variant)):
        return _Same(value)
    array = value.numpy() if tf.is_tensor(value) else value
    array = np.asarray(array)
    content = repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
    return array.shape, str(array.dtype), hashlib.blake2b(content).digest()


def _of_collection(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        return [(snapshot(k, depth), snapshot(v, depth)) for k, v in value.items()]
    if isinstance(value, (set, frozenset)):
        return set(value)
    return [snapshot(v, depth) for v in value]


def _held_by(value: Any, depth: int) -> Any:
    """What an object holds; None of layers, which are looked at one by one."""
    if isinstance(value, (type, keras.layers.Layer)):
        return None
    if type(value).__module__.partition(".")[0] not in _LIBRARIES:
        held = getattr(value, "__dict__", {})
        return None if callable(value) and not held else snapshot(dict(held), depth)
    try:
        return snapshot(value.get_config(), depth)
    except Exception:  # it has none
        return None
