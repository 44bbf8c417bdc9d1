"""Copies of single layers, and how messages name them."""

from __future__ import annotations

import tempfile
import types
from typing import Any

import keras

from tfbdl.keras_private import copy_lambda, pair_layers


def describe(layer: Any) -> str:
    """A layer as messages name it."""
    return f"layer={layer.name!r} ({type(layer).__name__})"


def copy_layer(layer: Any) -> Any:
    """A new layer (or operation) like `layer`, from its config, without its state.

    Functions, such as an activation of one's own, are used themselves, so that they need not be
    registered with Keras.

    Raises:
        ValueError: if the config does not give the layer back.
    """
    if type(layer) is keras.layers.Lambda:
        return copy_lambda(layer)
    try:
        config = layer.get_config()
        attributes = {name: getattr(layer, name, None) for name in config}
        functions = {n: a for n, a in attributes.items() if isinstance(a, types.FunctionType)}
        return type(layer).from_config({**config, **functions})
    except (NotImplementedError, TypeError, ValueError) as error:
        raise _not_again(layer) from error


def copy_state(layer: keras.layers.Layer, copy: keras.layers.Layer) -> None:
    """Gives a built copy all that a file would hold, and what is frozen in it.

    Raises:
        ValueError: if the copy differs inside.
    """
    try:
        for old, new in pair_layers(layer, copy):
            new.trainable = old.trainable
            store: dict[str, Any] = {}
            old.save_own_variables(store)
            new.load_own_variables(store)
            if hasattr(old, "save_assets"):
                with tempfile.TemporaryDirectory() as folder:
                    old.save_assets(folder)
                    new.load_assets(folder)
    except ValueError as error:
        raise _not_again(layer) from error


def _not_again(layer: Any) -> ValueError:
    return ValueError(
        f"{describe(layer)} cannot be made again from its config; see to its get_config, and "
        "register what it holds with Keras"
    )
