"""Records of the inputs of layers, and their outputs before the activation, while a model runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import keras

from tfbdl.keras_private import walk


class Call(NamedTuple):
    """One call of a layer.

    layer: the layer.
    x: its first argument, given by place or by name.
    z: its output; before the activation, if asked for.
    """

    layer: keras.layers.Layer
    x: Any
    z: Any


@contextmanager
def recorded(
    layers: Iterable[keras.layers.Layer], *, before_activation: bool = False
) -> Iterator[list[Call]]:
    """The calls of these layers inside the context, in the order in which they ended.

    Works for any model, since the layers themselves are listened to: while the context lasts, each
    has a `call` of its own.

    Args:
        layers: the layers.
        before_activation: whether their outputs are those before the `activation`, which all of
            them have.
    """
    calls: list[Call] = []
    layers = list({id(layer): layer for layer in layers}.values())
    for layer in layers:
        layer.__dict__["call"] = _listening(layer, calls, before_activation)
    try:
        yield calls
    finally:
        for layer in layers:
            del layer.__dict__["call"]


def _listening(layer: keras.layers.Layer, calls: list[Call], before_activation: bool) -> Any:
    own = layer.call
    first = next(iter(inspect.signature(own).parameters), "")

    def call(*args: Any, **kwargs: Any) -> Any:
        x = args[0] if args else kwargs.get(first)
        if not before_activation:
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
