"""What a program computes, but for arrays: two models of one structure can share what is compiled.

A structure is known for layers whose calls depend on their configs, their variables and inputs
alone, and for priors and likelihoods of this package. Anything else may hold on to what no config
tells, and has no structure here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras

from tfbdl import layers
from tfbdl.keras_private import is_graph, walk

_NAMES = (
    *("InputLayer", "Dense", "EinsumDense", "Activation", "ReLU", "LeakyReLU", "ELU", "Softmax"),
    *("Flatten", "Reshape", "Permute", "RepeatVector", "Rescaling", "Identity", "Dropout"),
    *("Conv1D", "Conv2D", "Conv3D", "DepthwiseConv2D", "SeparableConv2D", "Conv2DTranspose"),
    *("MaxPooling1D", "MaxPooling2D", "AveragePooling1D", "AveragePooling2D"),
    *("GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalMaxPooling2D", "ZeroPadding2D"),
    *("BatchNormalization", "LayerNormalization", "Embedding", "LSTM", "GRU", "SimpleRNN"),
    *("Add", "Subtract", "Multiply", "Average", "Maximum", "Concatenate"),
)
_KNOWN = {
    *(getattr(keras.layers, name) for name in _NAMES),
    *(layers.FilterResponseNormalization, layers.LearnedScale),
}


def of_model(model: keras.Model) -> str | None:
    """The structure of a model, whatever its layers are called; None where it may have more.

    Args:
        model: built.
    """
    inside = list(walk(model))
    if not all(is_graph(layer) or type(layer) in _KNOWN for layer in inside):
        return None
    if not all(_has_stock_activations(layer) for layer in inside):
        return None
    return _text_of(model, inside)


def of_objects(objects: Sequence[Any]) -> str | None:
    """The structure of objects of this package that have a config; None where one is of others."""
    texts = [_text_of(thing, [thing]) for thing in objects]
    known = [text for text in texts if text is not None]
    return "\n".join(known) if len(known) == len(texts) else None


def _text_of(thing: Any, named: Iterable[Any]) -> str | None:
    """The config of all that is inside, as text; None where something is not of these packages.

    Args:
        thing: an object with a config.
        named: it and what is in it, whose names say nothing.
    """
    numbers: dict[str, str] = {}
    for one in named:
        numbers.setdefault(one.name, f"#{len(numbers)}")
    try:
        config = keras.saving.serialize_keras_object(thing)
        return json.dumps(_numbered(config, numbers)) if _is_known(config) else None
    except (TypeError, ValueError):  # a config that no file could hold
        return None


def _has_stock_activations(layer: keras.layers.Layer) -> bool:
    """Whether the activations of a layer, which a config only names, are Keras' own."""
    chosen = [getattr(layer, f"{part}activation", None) for part in ("", "recurrent_")]
    known = [getattr(keras.activations, getattr(f, "__name__", ""), None) for f in chosen]
    return all(f is None or f is k for f, k in zip(chosen, known, strict=True))


def _is_known(config: Any) -> bool:
    """Whether all objects in a config are of classes of Keras or of this package."""
    if isinstance(config, Mapping):
        module = config.get("module", "keras") if "class_name" in config else "keras"
        root = str(module).partition(".")[0]
        return root in ("keras", "tfbdl") and all(map(_is_known, config.values()))
    return all(map(_is_known, config)) if isinstance(config, (list, tuple)) else True


def _numbered(config: Any, numbers: Mapping[str, str]) -> Any:
    """A config with `numbers` in the place of names, where names stand."""
    if isinstance(config, Mapping):
        return {
            key: numbers.get(value, value)
            if key == "name" and isinstance(value, str)
            else _numbered(value, numbers)
            for key, value in config.items()
            if key != "compile_config"
        }
    if isinstance(config, (list, tuple)):
        is_place = len(config) == 3 and isinstance(config[0], str)  # a node: layer, call, output
        first = [numbers.get(config[0], config[0])] if is_place else []
        return first + [_numbered(value, numbers) for value in config[len(first) :]]
    return config
