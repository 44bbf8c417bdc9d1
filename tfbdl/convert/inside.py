"""Exchanges inside layers that hold others: attention, wrappers, blocks of a user's own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import keras

from tfbdl.convert.selection import Layer
from tfbdl.copying import copy_layer, copy_state, describe
from tfbdl.held_layers import held_layers, layer_at, put_layer
from tfbdl.keras_private import is_graph, walk
from tfbdl.layers import Exchanged

_SAVED_BY_KERAS = (keras.layers.TimeDistributed, keras.layers.Bidirectional)
"""Layers whose config holds the layers in them, wherever these come from."""


class Rule(NamedTuple):
    """The exchange of a layer: `make` a new one and, once that is built, `fill` it from the old.

    `make` raises ValueError where something of the layer would be lost.
    """

    make: Callable[[Any], Any]
    fill: Callable[[Any, Any], None] = lambda old, new: None


def inside(wanted: Collection[int], kept: Collection[int], replace: Callable[[Any], Any]) -> Rule:
    """The rule of a layer that holds layers to exchange: a copy in which they are exchanged.

    Args:
        wanted: ids of the layers to make anew: to exchange, or to share with copies of others.
        kept: ids of those among them that files are to know as shared.
        replace: gives the new layer for an old one.
    """

    def make(old: Any) -> Layer:
        source = _source(old)
        parts = list(_parts(old, wanted))
        _check_reached(old, parts, wanted)
        copy = copy_layer(source)
        inner = {}
        for path, part in parts:
            try:
                given = layer_at(copy, path)
            except KeyError:
                given = None
            if not isinstance(given, Layer):
                raise ValueError(
                    f"{describe(part)} lies inside {describe(old)}, whose copy has no {path!r}: "
                    "it is made in `build`; give that layer a get_build_config, or `skip` it"
                )
            new = replace(part)
            if part.built and not new.built and part.get_build_config():
                new.build_from_config(part.get_build_config())
            as_given = _kinds(new) == _kinds(given) and id(part) not in kept
            if as_given or type(source) in _SAVED_BY_KERAS:
                put_layer(copy, path, new)
            else:
                inner[path] = new
        return Exchanged(copy, inner) if inner else copy

    def fill(old: Any, new: Any) -> None:
        parts = [part for _, part in _parts(old, wanted)]
        copy_state(_source(old), _source(new), without=parts)

    return Rule(make, fill)


def _kinds(layer: Layer) -> list[type[Layer]]:
    return [type(part) for part in walk(layer)]


def _source(layer: Any) -> Layer:
    return layer.layer if type(layer) is Exchanged else layer


def _parts(old: Any, wanted: Collection[int]) -> Iterator[tuple[str, Layer]]:
    """Paths and layers that `replace` makes anew: chosen, exchanged before, models with such."""
    before = {id(layer) for layer in old.inner.values()} if type(old) is Exchanged else set()
    wanted = {*wanted, *before}

    def visit(layer: Layer, prefix: str) -> Iterator[tuple[str, Layer]]:
        for path, inner in held_layers(layer):
            holds = any(id(part) in wanted for part in walk(inner))
            if id(inner) in wanted or (holds and is_graph(inner)):
                yield prefix + path, inner
            elif holds:
                yield from visit(inner, f"{prefix}{path}/")

    return visit(_source(old), "")


def _check_reached(old: Layer, parts: list[tuple[str, Layer]], wanted: Collection[int]) -> None:
    """Raises ValueError where a layer to be made anew is held in a way that is not known."""
    reached = {id(layer) for _, part in parts for layer in walk(part)}
    for layer in walk(old):
        if id(layer) in wanted and id(layer) not in reached:
            raise ValueError(
                f"{describe(layer)} lies inside {describe(old)}, where no attribute, list or "
                "dictionary holds it; give it an attribute, or `skip` it"
            )
