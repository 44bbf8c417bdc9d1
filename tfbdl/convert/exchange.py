"""A copy of a model in which some layers are exchanged for others.

The graph is rebuilt with a new layer in the place of each old one: its counterpart where a rule
names one, else a copy. Then every new layer takes over the state of the old one. Layers that are
shared, also between nested models, stay shared; the original is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import keras

from tfbdl.arguments import shown, words
from tfbdl.copying import copy_layer, copy_state, describe
from tfbdl.keras_private import is_graph, rebuild, walk
from tfbdl.likelihoods import check_metrics

Layer: TypeAlias = keras.layers.Layer
_WANTED = "names of layers, or a function of a layer"
Selection: TypeAlias = str | Sequence[str] | Callable[[Layer], bool] | None


class Rule(NamedTuple):
    """The exchange of a layer: `make` a new one and, once that is built, `fill` it from the old.

    `make` raises ValueError where something of the layer would be lost.
    """

    make: Callable[[Any], Any]
    fill: Callable[[Any, Any], None] = lambda old, new: None


def exchange(
    model: keras.Model, rules: Mapping[type[Layer], Rule], layers: Selection = None
) -> keras.Model:
    """A copy of `model`, not compiled, in which layers are exchanged by `rules`.

    Args:
        model: a functional or a built Sequential model, with models of these kinds in it.
        rules: the exchange of layers, by their type; a subclass is another type.
        layers: the layers among them: names, or a function of a layer; by default all.

    Raises:
        ValueError: if there is nothing to exchange, a layer that is to be and cannot be, or a
            metric of Keras' own compares y with outputs that are no predictions.
    """
    _check_model(model)
    check_metrics(model)
    chosen = _choose(model, tuple(rules), layers)
    _check_reach(model, rules, chosen)
    made: dict[int, tuple[Any, Any, Rule]] = {}

    def rule_of(old: Any) -> Rule:
        if is_graph(old):
            return Rule(lambda model: rebuild(model, replace))
        if {id(inner) for inner in _directions(old)} & chosen:
            return _bidirectional(rule_of)
        return rules[type(old)] if id(old) in chosen else Rule(copy_layer, copy_state)

    def replace(old: Any) -> Any:
        if id(old) not in made:
            rule = rule_of(old)
            made[id(old)] = old, rule.make(old), rule
        return made[id(old)][1]

    converted = replace(model)
    for old, new, rule in reversed(made.values()):  # models before the layers in them
        if isinstance(old, Layer):
            new.trainable = old.trainable
            rule.fill(old, new)
    return converted


def _check_model(model: keras.Model) -> None:
    """Raises ValueError where the model's graph is not known."""
    if is_graph(model):
        return
    if type(model) is keras.Sequential:
        raise ValueError(f"model={model.name!r} is not built; give it a keras.Input, or call it")
    name = shown(getattr(model, "name", model))
    raise ValueError(
        f"model={name} ({type(model).__name__}) is no functional or "
        "Sequential model; use the layers of tfbdl.layers in its code, or convert "
        "keras.Model(model.inputs, model.outputs) where it has these"
    )


def _choose(model: keras.Model, kinds: tuple[type[Layer], ...], layers: Selection) -> set[int]:
    """The ids of the layers to exchange, wherever they are in the model."""
    known = {id(layer): layer for layer in walk(model) if isinstance(layer, kinds)}
    names = ", ".join(sorted({layer.name for layer in known.values()}))
    if not known:
        wanted = ", ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"model={model.name!r} holds nothing to convert, which is: {wanted}")
    if layers is None:
        return set(known)
    if callable(layers) and not isinstance(layers, type):
        chosen = {key for key, layer in known.items() if layers(layer)}
    else:
        asked = [layers] if isinstance(layers, str) else words("layers", layers, _WANTED)
        unknown = sorted(set(asked) - {layer.name for layer in known.values()})
        if unknown:
            raise ValueError(f"layers={unknown} are unknown; what can be converted is: {names}")
        chosen = {key for key, layer in known.items() if layer.name in asked}
    if not chosen:
        raise ValueError(f"layers={shown(layers)} chooses none; what can be converted is: {names}")
    return chosen


def _check_reach(model: keras.Model, rules: Mapping[type[Layer], Rule], chosen: set[int]) -> None:
    """Raises ValueError where a chosen layer is out of reach, or a copy would part a shared one."""
    owner: dict[int, Layer] = {}
    for outer in _leaves(model):
        for layer in walk(outer):
            first = owner.setdefault(id(layer), outer)
            if first is not outer and layer.weights:
                raise ValueError(
                    f"{describe(layer)} is shared by {first.name!r} and {outer.name!r}, where a "
                    "copy would part it; share it by calling it twice"
                )
            drops_nothing = getattr(layer, "rate", None) == 0  # attention layers hold such
            inside = layer is not outer and not any(layer is v for v in _directions(outer))
            if id(layer) in chosen and inside and not drops_nothing:
                raise ValueError(
                    f"{describe(layer)} lies inside {outer.name!r} ({type(outer).__name__}), where "
                    "it cannot be exchanged; take it out, or choose `layers` without it"
                )
            if id(layer) in chosen and type(layer) not in rules:
                raise ValueError(
                    f"{describe(layer)} is of a subclass, whose own code would be lost; use a "
                    "layer of tfbdl.layers in its place"
                )


def _directions(layer: Any) -> tuple[Layer, ...]:
    """The layers of a Bidirectional, which can be exchanged inside it."""
    if type(layer) is not keras.layers.Bidirectional:
        return ()
    return layer.forward_layer, layer.backward_layer


def _bidirectional(rule_of: Callable[[Any], Rule]) -> Rule:
    """The rule of a Bidirectional, from the rule of the layer that it wraps."""

    def make(old: Any) -> Layer:
        forward, backward = (rule_of(inner).make(inner) for inner in _directions(old))
        return keras.layers.Bidirectional(
            forward, old.merge_mode, backward_layer=backward, name=old.name, dtype=old.dtype_policy
        )

    def fill(old: Any, new: Any) -> None:
        for inner, exchanged in zip(_directions(old), _directions(new), strict=True):
            exchanged.trainable = inner.trainable
            rule_of(inner).fill(inner, exchanged)

    return Rule(make, fill)


def _leaves(model: keras.Model) -> Iterator[Layer]:
    """The layers that a model calls, those of nested models in the place of these."""
    for layer in model.layers:
        if is_graph(layer):
            yield from _leaves(layer)
        else:
            yield layer
