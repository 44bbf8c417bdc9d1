"""The last call of each layer, kept apart for calls of several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class OfCall:
    """An attribute that a layer sets while it is called, for those who read it afterwards.

    Inside `apart` it is an attribute of the thread as well: a prediction neither sees nor changes
    what a training step in another thread has just put there, and is about to read.

    Args:
        start: makes the value that it has before the first call.
    """

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start = start

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, layer: Any, owner: type | None = None) -> Any:
        if layer is None:
            return self
        values = _values(layer)
        if self._name not in values:
            values[self._name] = self._start()
        return values[self._name]

    def __set__(self, layer: Any, value: Any) -> None:
        _values(layer)[self._name] = value


@contextmanager
def apart(*, costs: bool = False) -> Iterator[None]:
    """Calls of layers in this thread, inside the context, leave no trace in others, or after it.

    Args:
        costs: whether layers compute what they add to the loss: who asks for outputs alone does
            not read it, and graphs without it are made and run in less time.
    """
    before = _of_thread.values, _of_thread.costs
    _of_thread.values, _of_thread.costs = {}, costs
    try:
        yield
    finally:
        _of_thread.values, _of_thread.costs = before


def costs_are_read() -> bool:
    """Whether somebody may read what the layers that are called now add to the loss."""
    return _of_thread.costs


class _OfThread(threading.local):
    """The calls of layers inside `apart`, by the identity of the layer; None outside."""

    values: dict[int, dict[str, Any]] | None = None
    costs = True


_of_thread = _OfThread()


def _values(layer: Any) -> dict[str, Any]:
    if _of_thread.values is None:
        return layer.__dict__.setdefault("_of_call", {})
    return _of_thread.values.setdefault(id(layer), {})
