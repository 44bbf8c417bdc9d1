"""Records of the inputs of layers, and their outputs before the activation, while a model runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import keras

from tfbdl.keras_private import walk

LINEAR = (keras.layers.Dense, keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
"""Layers that are an activation of a function linear in their weights."""


class Call(NamedTuple):
    """One call of a layer.

    layer: the layer.
    x: its first argument, given by place or by name.
    z: its output; before the activation, of a layer of exactly one of the types `LINEAR`.
    """

    layer: keras.layers.Layer
    x: Any
    z: Any


@contextmanager
def recorded(layers: Iterable[keras.layers.Layer]) -> Iterator[list[Call]]:
    """The calls of these layers inside the context, in the order in which they ended.

    Works for any model, since the layers themselves are listened to: while the context lasts, each
    has a `call` of its own.
    """
    calls: list[Call] = []
    layers = list({id(layer): layer for layer in layers}.values())
    for layer in layers:
        layer.__dict__["call"] = _listening(layer, calls)
    try:
        yield calls
    finally:
        for layer in layers:
            del layer.__dict__["call"]


def _listening(layer: keras.layers.Layer, calls: list[Call]) -> Any:
    own = layer.call
    first = next(iter(inspect.signature(own).parameters), None)

    def call(*args: Any, **kwargs: Any) -> Any:
        x = args[0] if args else kwargs.get(first or "")
        if type(layer) not in LINEAR:
            output = own(*args, **kwargs)
            calls.append(Call(layer, x, output))
            return output
        activation, layer.activation = layer.activation, keras.activations.linear
        try:
            z = own(*args, **kwargs)
        finally:
            layer.activation = activation
        calls.append(Call(layer, x, z))
        return activation(z)

    return call


def owners(model: keras.Model) -> list[keras.layers.Layer]:
    """The innermost layer that holds each of `model.trainable_variables`."""
    owner: dict[int, keras.layers.Layer] = {}
    for layer in walk(model):
        owner.update({id(v): layer for v in layer.trainable_variables})
    return [owner[id(v)] for v in model.trainable_variables]
