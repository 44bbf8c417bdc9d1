"""Compiled functions of a model, kept until one of its layers is another."""

from __future__ import annotations

from collections.abc import Callable
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
        settings = [(layer, settings_of(layer)) for layer in walk(self._model)]
        if settings != self._made_for:
            self._made, self._made_for = {}, settings
        made = self._made
        return made[key] if key in made else made.setdefault(key, make())


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
