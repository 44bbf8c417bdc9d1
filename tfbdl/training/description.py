"""A description of a training in plain values, by which a run tells whether it is the same."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias

import keras
import numpy as np

from tfbdl import kl_term
from tfbdl.keras_private import walk
from tfbdl.keras_private_training import compiled_with
from tfbdl.training.num_samples import num_samples_of

Description: TypeAlias = dict[str, str]
"""Plain values, as JSON, by names such as "model.Dense[2].units" or "optimizer.learning_rate"."""

PARTS = ("model", "loss", "optimizer")
_WITHOUT_EFFECT = ("module", "registered_name", "shared_object_id")


def describe(model: keras.Model) -> Description:
    """The settings that decide how a compiled model trains, but for its weights and its data.

    The only variables that it has are the weights of the KL.

    The layers with their settings, in the order in which the model holds them, and where Keras
    knows the graph of the model how they are connected; the losses with their weights; and the
    optimizer. Names that Keras makes up do not count, so that a model that is built again by the
    same code has the same description. Functions are described by their name alone.
    """
    layers = list(walk(model))
    numbers = {layer.name: f"#{i}" for i, layer in reversed(list(enumerate(layers)))}
    compiled = compiled_with(model)
    losses = {"loss": compiled.get("loss"), "weights": compiled.get("loss_weights")}
    if num_samples_of(model) > 1:
        losses["num_samples"] = num_samples_of(model)
    kl_weights = [float(keras.ops.convert_to_numpy(w)) for w in kl_term.weights(model)]
    made_of: dict[str, Any] = {
        "model.layers": [type(layer).__name__ for layer in layers],
        **{
            f"model.{type(layer).__name__}[{i}]": _settings(layer) for i, layer in enumerate(layers)
        },
        **({"model.kl_weight": kl_weights} if kl_weights else {}),
        "loss": losses,
        "optimizer": {"class": type(model.optimizer).__name__, **_settings(model.optimizer)},
    }
    leaves = _leaves("", _plain(made_of))
    return {name: json.dumps(_renamed(value, numbers)) for name, value in leaves}


def first_change(
    before: Mapping[str, str], now: Mapping[str, str], but: Collection[str] = ()
) -> str | None:
    """The first difference, as "name=value, not value"; None if there is none.

    Args:
        before: a description.
        now: another.
        but: the parts of `PARTS` in which they may differ.
    """
    for name in dict.fromkeys((*before, *now)):
        was, value = before.get(name, "none"), now.get(name, "none")
        if was != value and name.split(".")[0] not in but:
            return f"{name}={was}, not {value}"
    return None


def _settings(thing: Any) -> dict[str, Any]:
    """The config, but for the name; nothing where there is none to be had."""
    try:
        config = dict(thing.get_config())
    except (NotImplementedError, TypeError, ValueError):
        return {}
    config.pop("name", None)
    if "input_layers" in config:  # the layers are described one by one
        config["connections"] = [layer.get("inbound_nodes") for layer in config["layers"]]
    if isinstance(thing, keras.Model):
        config.pop("layers", None)
    return config


def _plain(value: Any) -> Any:
    """Values that JSON can hold."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if value is None or isinstance(value, (int, float, str)):
        return float(f"{value:.7g}") if isinstance(value, float) else value  # digits of float32
    if isinstance(value, Mapping):
        if _is_made_up(value.get("config"), value.get("class_name")):
            value = {**value, "config": {k: v for k, v in value["config"].items() if k != "name"}}
        return {str(k): _plain(v) for k, v in value.items() if k not in _WITHOUT_EFFECT}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if hasattr(value, "get_config"):
        return _plain({"class": type(value).__name__, **_settings(value)})
    return getattr(value, "__qualname__", type(value).__name__)


def _is_made_up(config: Any, class_name: Any) -> bool:
    """Whether the name in a config is one that Keras gives, such as "normal_2" to a `Normal`."""
    if not isinstance(config, Mapping) or not isinstance(class_name, str):
        return False
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name).lower()
    return re.fullmatch(rf"{snake}(_\d+)?", str(config.get("name"))) is not None


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The plain values inside, each by its full name."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(f"{name}.{key}" if name else key, inner)
    elif isinstance(value, list) and any(isinstance(v, (dict, list)) for v in value):
        for i, inner in enumerate(value):
            yield from _leaves(f"{name}.{i}", inner)
    else:
        yield name, value


def _renamed(value: Any, numbers: Mapping[str, str]) -> Any:
    """The value, names of layers in it replaced by their numbers."""
    if isinstance(value, list):
        return [_renamed(v, numbers) for v in value]
    return numbers.get(value, value) if isinstance(value, str) else value
