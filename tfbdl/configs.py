"""What layers are made again from: their config, whole, or the arguments they were made with."""

from __future__ import annotations

import inspect
import types
from typing import Any

import keras

from tfbdl.keras_private import recorded_arguments


def config_of(layer: Any) -> dict[str, Any]:
    """The config of a layer, and what the layer's own `get_config` forgets.

    Arguments of the constructor that the config lacks, if the layer has a number, a word, a truth
    value, or a tuple of these under the same name: in Keras 3.12 `output_padding` of transposed
    convolutions, in 3.15 `sparse` of `CategoryEncoding`.
    """
    config, own = layer.get_config(), vars(layer)
    arguments = inspect.signature(type(layer).__init__).parameters
    lost = [name for name in arguments if name not in config and _is_plain(own.get(name))]
    return {**config, **{name: own[name] for name in lost}}


def config_of_arguments(layer: Any) -> dict[str, Any] | None:
    """A config of the arguments of a layer's constructor, for classes whose own is mistaken.

    Keras records arguments that are all numbers and words. Others are taken for the attributes of
    their names, which `has_same_arguments` has to confirm of the layer that is made of them.

    Returns:
        The config; None if an argument is not known, or it would lose a regulariser.
    """
    if not isinstance(layer, keras.layers.Layer) or layer.activity_regularizer is not None:
        return None
    config, own = recorded_arguments(layer) or {}, vars(layer)
    parameters = inspect.signature(type(layer).__init__).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        config |= {"name": layer.name, "trainable": layer.trainable, "dtype": layer.dtype_policy}
    named = [name for name in _arguments(layer) if name not in config]
    if not all(name in own and (_is_plain(own[name]) or _is_shared(own[name])) for name in named):
        return None
    config |= {name: own[name] for name in named}
    return {name: keras.saving.serialize_keras_object(value) for name, value in config.items()}


def has_same_arguments(layer: keras.layers.Layer, copy: keras.layers.Layer) -> bool:
    """Whether attributes named as arguments that are numbers and words are the same in both."""
    own, others = vars(layer), vars(copy)
    plain = [name for name in _arguments(layer) if _is_plain(own.get(name))]
    return all(others.get(name) == own[name] for name in plain)


def lambda_of(layer: keras.layers.Layer) -> str | None:
    """The first argument of a layer's constructor that is a lambda; None if there is none.

    Files give a lambda back in no safe mode.
    """
    own = vars(layer)
    given = ((name, own.get(name)) for name in _arguments(layer))
    functions = ((n, f) for n, f in given if isinstance(f, types.FunctionType))
    return next((name for name, function in functions if function.__name__ == "<lambda>"), None)


def _arguments(layer: keras.layers.Layer) -> list[str]:
    """Names of the arguments of a layer's constructor."""
    own = list(inspect.signature(type(layer).__init__).parameters.values())[1:]
    return [parameter.name for parameter in own if parameter.kind is not parameter.VAR_KEYWORD]


def _is_plain(value: Any) -> bool:
    several = isinstance(value, tuple) and all(map(_is_plain, value))
    return several or isinstance(value, bool | int | float | str)


def _is_shared(value: Any) -> bool:
    """Whether a layer and its copy may have the same of something that is not plain."""
    return value is None or isinstance(value, keras.initializers.Initializer | types.FunctionType)


def keep_config(layer: keras.layers.Layer, config: dict[str, Any]) -> None:
    """Has a layer answer with this config from now on, whatever its class would.

    It answers with copies: those who read a config take entries out of it.
    """
    layer.__dict__["get_config"] = _KeptConfig(layer, config)


class _KeptConfig:
    def __init__(self, layer: keras.layers.Layer, config: dict[str, Any]) -> None:
        self.layer, self.config = layer, config

    def __call__(self) -> dict[str, Any]:
        config: dict[str, Any] = keras.tree.map_structure(lambda leaf: leaf, self.config)
        if "trainable" in config:
            config["trainable"] = self.layer.trainable
        return config
