"""Compiled functions of a model, kept until one of its layers is another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import keras
import tensorflow as tf

from tfbdl.keras_private import settings_of, walk
from tfbdl.tensorflow_private import gradients_die

P = ParamSpec("P")
Result = TypeVar("Result")


class Programs:
    """Compiled functions of a model, made when they are first asked for.

    A traced function computes for ever what layers were when it was traced. So all are forgotten
    once the model has other layers, or a layer other settings, such as its activation.

    Args:
        model: the model, whose layers are looked at whenever a function is asked for.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._made: dict[Any, Any] = {}
        self._made_for: list[Any] = []

    def of(self, key: Any, make: Callable[[], Any]) -> Any:
        """The program that `make` has made for this key."""
        held = _of_thread.held.get(id(self))
        made = self._look() if held is None else held
        return made[key] if key in made else made.setdefault(key, make())

    @contextmanager
    def held(self) -> Iterator[None]:
        """A context for which the model stays as it is: in this thread it is looked at once.

        Looking takes 0.2 ms a layer, which is much beside a small batch.
        """
        before = _of_thread.held
        _of_thread.held = {**before, id(self): self._look()}
        try:
            yield
        finally:
            _of_thread.held = before

    def _look(self) -> dict[Any, Any]:
        """The programs for the layers as they are now."""
        settings = [(layer, settings_of(layer)) for layer in walk(self._model)]
        if settings != self._made_for:
            self._made, self._made_for = {}, settings
        return self._made


class _OfThread(threading.local):
    """The programs that are held in a thread, by the identity of their `Programs`."""

    def __init__(self) -> None:
        self.held: dict[int, dict[Any, Any]] = {}


_of_thread = _OfThread()


class HasPrograms(Protocol):
    """An object that holds a model, and its compiled functions."""

    programs: Programs


Owner = TypeVar("Owner", bound=HasPrograms)


def as_graph(
    method: Callable[Concatenate[Owner, P], Result],
) -> Callable[Concatenate[Owner, P], Result]:
    """A method whose eager calls run as graphs: one for each object and kind of arguments."""

    @wraps(method)
    def call(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        if not tf.executing_eagerly():
            return method(self, *args, **kwargs)
        graphs = self.programs.of(method, lambda: tf.function(method, autograph=False))
        with gradients_die():
            return graphs.__get__(self, type(self))(*args, **kwargs)

    return call
