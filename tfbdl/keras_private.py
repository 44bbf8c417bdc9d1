"""Every use of a private name of Keras, in one place; `tests/test_keras_private.py` guards them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
from keras.src.random.seed_generator import make_default_seed

__all__ = [
    "build_all",
    "inherit_call_argument",
    "make_default_seed",
    "set_loss",
    "takes_training",
    "walk",
]


def inherit_call_argument(layer: keras.layers.Layer, name: str) -> None:
    """Makes `layer` receive, and pass on to what it calls, the call argument `name`.

    Keras hands `training` down through all layers that a call reaches, whatever models lie between
    them; this asks for the same for another name.
    """
    layer._register_call_context_args(name)


def set_loss(layer: keras.layers.Layer, loss: Any) -> None:
    """As `layer.add_loss`, once per forward pass: a layer that is called again replaces its loss.

    Keras forgets losses when a forward pass begins and keeps all that are added in it.
    """
    layer._clear_losses()
    layer.add_loss(loss)


def takes_training(model: keras.Model) -> bool:
    """Whether Keras tells `model`, and so the layers in it, that it trains."""
    return model._call_has_training_arg


def walk(layer: keras.layers.Layer) -> Iterator[keras.layers.Layer]:
    """All layers inside `layer`, itself first, each once."""
    yield from layer._flatten_layers()


def build_all(model: keras.Model, batch: tuple[Any, Any]) -> None:
    """Makes all variables of a compiled model, its metrics and its optimizer.

    `model.fit` does so when it meets its first batch; nothing is computed and no state changes.
    """
    with model.distribute_strategy.scope():
        model._symbolic_build(data_batch=batch)
