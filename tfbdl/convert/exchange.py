"""A copy of a model in which some layers are exchanged for others.

The graph is rebuilt with a new layer in the place of each old one: its counterpart where a rule
names one, else a copy; `convert.inside` reaches into layers that hold others. Then every new layer
takes over the state of the old one. Layers that are shared, also between nested models, stay
shared; the original is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras

from tfbdl.arguments import shown
from tfbdl.compilation import compile_like
from tfbdl.convert.inside import Rule, inside
from tfbdl.convert.selection import Layer, Selection, choose
from tfbdl.copying import by_paths, copy_layer, copy_state, describe, reason
from tfbdl.keras_private import is_graph, takes_call_argument, walk
from tfbdl.keras_private_graphs import Replace, graphs_in, rebuild
from tfbdl.likelihoods import check_metrics
from tfbdl.priors import Prior

_TRAINING = ("train_step", "test_step", "predict_step", "compute_loss", "compute_metrics")
"""Methods of models that their graph and config say nothing of."""


def exchange(
    model: keras.Model,
    rules: Mapping[type[Layer], Rule],
    layers: Selection = None,
    skip: Selection = None,
    *,
    compiled: bool = True,
    plain: bool = False,
) -> keras.Model:
    """A copy of `model`, compiled as it is, in which layers are exchanged by `rules`.

    Args:
        model: a functional or a built Sequential model, with models of these kinds in it.
        rules: the exchange of layers, by their type; a subclass is another type.
        layers: the layers among them, by default all.
        skip: the layers among these that are copied all the same.
        compiled: whether the copy is compiled, which one inside another model is not to be.
        plain: whether all layers of the copy are to be those of Keras, whose files forget that
            layers inside others are shared.

    Raises:
        ValueError: if there is nothing to exchange, a layer that is to be and cannot be, one that
            uses the weights of another that is, or a metric of Keras' own compares y with outputs
            that are no predictions.
    """
    _check_model(model)
    check_metrics(model)
    with by_paths(model):
        return _exchanged(model, rules, layers, skip, compiled=compiled, plain=plain)


def _exchanged(
    model: keras.Model,
    rules: Mapping[type[Layer], Rule],
    layers: Selection,
    skip: Selection,
    *,
    compiled: bool,
    plain: bool,
) -> keras.Model:
    chosen = choose(model, tuple(rules), layers, skip)
    _check_types(model, rules, chosen)
    shared = _shared(model, chosen)
    wanted = chosen | shared
    made: dict[int, tuple[Any, Any, Rule]] = {}

    def rule_of(old: Any) -> Rule:
        if is_graph(old):
            return Rule(lambda model: _rebuilt(model, replace))
        if id(old) in chosen:
            return rules[type(old)]
        if isinstance(old, Layer) and any(id(part) in wanted for part in list(walk(old))[1:]):
            return inside(wanted, set() if plain else shared, replace)
        return Rule(copy_layer, copy_state)

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
    if compiled:
        compile_like(model, converted)
    return converted


def _rebuilt(model: keras.Model, replace: Replace) -> keras.Model:
    """As `rebuild`; a layer that uses what another was, such as its kernel, fails in a line."""
    try:
        return rebuild(model, replace)
    except Exception as error:  # a layer of any class may raise anything
        if isinstance(error, ValueError) and "\n" not in str(error):
            raise
        first: BaseException = error
        while first.__context__ is not None:  # Keras wraps it, in many lines
            first = first.__context__
        raise ValueError(
            f"model={model.name!r} cannot be called with new layers in it ({reason(first)}); "
            "`skip` those whose weights another layer uses itself"
        ) from error


def _check_model(model: keras.Model) -> None:
    """Raises ValueError where the model's graph is not known, or does not say how it trains."""
    if is_graph(model):
        own = [
            name
            for name in _TRAINING
            if getattr(type(model), name) is not getattr(keras.Model, name)
        ]
        if own:
            raise ValueError(
                f"model={model.name!r} ({type(model).__name__}) has a {own[0]} of its own, which a "
                "copy would lose; convert keras.Model(model.inputs, model.outputs)"
            )
        return
    if type(model) is keras.Sequential:
        raise ValueError(f"model={model.name!r} is not built; give it a keras.Input, or call it")
    name = shown(getattr(model, "name", model))
    raise ValueError(
        f"model={name} ({type(model).__name__}) is no functional or "
        "Sequential model; use the layers of tfbdl.layers in its code, or convert "
        "keras.Model(model.inputs, model.outputs) where it has these"
    )


def _check_types(model: keras.Model, rules: Mapping[type[Layer], Rule], chosen: set[int]) -> None:
    """Raises ValueError where a chosen layer is of a class that no rule is known for."""
    for layer in walk(model):
        if id(layer) in chosen and type(layer) not in rules:
            raise ValueError(
                f"{describe(layer)} is of a subclass, whose own code would be lost; use a "
                "layer of tfbdl.layers in its place"
            )


def _shared(model: keras.Model, chosen: set[int]) -> set[int]:
    """Layers with weights that several layers of the graph are or hold, without those in them.

    Raises:
        ValueError: if a copy of one of these would have another in its place.
    """
    owner: dict[int, Layer] = {}
    shared = set()
    graphs = (model, *graphs_in(model))
    for outer in (layer for graph in graphs for layer in graph.layers if not is_graph(layer)):
        within: set[int] = set()
        for layer in walk(outer):
            first = owner.setdefault(id(layer), outer)
            if first is outer or not layer.weights or id(layer) in within:
                continue
            within.update(map(id, walk(layer)))
            holders = [holder for holder in (first, outer) if holder is not layer]
            if isinstance(layer, Prior) or any(_is_made_anew(h, chosen) for h in holders):
                raise ValueError(
                    f"{describe(layer)} is shared by {first.name!r} and {outer.name!r}, where a "
                    "copy would part it; share it by calling it twice"
                )
            shared.add(id(layer))
    return shared


def _is_made_anew(layer: Layer, chosen: set[int]) -> bool:
    """Whether a layer is exchanged itself, or random, and not a plain one that holds others."""
    return id(layer) in chosen or takes_call_argument(layer, "draw")
