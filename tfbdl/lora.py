"""Low-rank factors of layers, which Keras merges whenever it writes a layer.

A posterior over factors holds their values itself, and a merged kernel would count them twice. So
objects that hold both a network and a posterior have it written with its factors apart.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import keras
import numpy as np

from tfbdl.keras_private import own_variables, walk

_PREFIX = "lora|"


def has_lora(layer: Any) -> bool:
    """Whether low-rank factors are added to its kernel."""
    return bool(getattr(layer, "lora_enabled", False))


def factors_of(layer: keras.layers.Layer) -> list[keras.Variable]:
    """The factors; none of layers without."""
    return [v for v in own_variables(layer) if has_lora(layer) and v.name.startswith("lora_")]


def lora_of(layer: Any) -> tuple[int | None, float | None]:
    """Rank and scale of a layer's factors; None, None where it has none."""
    return (layer.lora_rank, layer.lora_alpha) if has_lora(layer) else (None, None)


def set_lora(layer: Any, rank: int | None, alpha: float | None) -> None:
    """Gives a built layer the factors that it lacks, made by a layer whose config is silent."""
    if rank is not None:
        if not layer.lora_enabled:
            layer.enable_lora(rank)
        layer.lora_alpha = alpha  # Keras takes the rank for it when it builds a layer


def write_factors(network: keras.Model, store: MutableMapping[str, Any]) -> None:
    """Puts the factors of a network that Keras is about to write into `store`, and not into it."""
    for key, layer, factors in _adapted(network):
        for v in factors:
            store[f"{_PREFIX}{key}|{v.name}"] = np.asarray(v)
        layer.__dict__["save_own_variables"] = _Once(layer, "save_own_variables", factors)


def read_factors(network: keras.Model, store: MutableMapping[str, Any]) -> None:
    """Has a network that Keras is about to read take its factors from what is in `store`."""
    for key, layer, factors in _adapted(network):
        kept = [(v, np.asarray(store[f"{_PREFIX}{key}|{v.name}"])) for v in factors]
        layer.__dict__["load_own_variables"] = _Once(layer, "load_own_variables", factors, kept)


def is_factor(name: str) -> bool:
    """Whether `write_factors` wrote what a store has under this name."""
    return name.startswith(_PREFIX)


class _Once:
    """A method of a layer that runs one time with the factors at zero, and then sets them.

    Args:
        layer: the layer.
        name: the name of the method.
        factors: the variables.
        after: variables and the values they get afterwards; by default the factors, and the values
            that they had before.
    """

    def __init__(
        self,
        layer: keras.layers.Layer,
        name: str,
        factors: list[keras.Variable],
        after: list[tuple[keras.Variable, np.ndarray]] | None = None,
    ) -> None:
        self.layer, self.name, self.factors, self.after = layer, name, factors, after

    def __call__(self, store: Any) -> None:
        del self.layer.__dict__[self.name]
        after = self.after or [(v, np.asarray(v)) for v in self.factors]
        for v in self.factors:
            v.assign(np.zeros(v.shape))
        try:
            getattr(self.layer, self.name)(store)
        finally:
            for v, value in after:
                v.assign(value)


def _adapted(network: keras.Model) -> list[tuple[int, keras.layers.Layer, list[keras.Variable]]]:
    """The layers with factors, each with its number among all layers, and the factors."""
    return [
        (number, layer, factors_of(layer))
        for number, layer in enumerate(walk(network))
        if has_lora(layer)
    ]
