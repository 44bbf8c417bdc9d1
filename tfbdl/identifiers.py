"""Objects that a user names, gives, or describes by a config, as everywhere in Keras."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import keras

from tfbdl.arguments import first_line, shown

T = TypeVar("T")


def choose(
    name: str, identifier: Any, kind: type, known: Mapping[str, Callable[[], Any]], also: str = ""
) -> Any:
    """The object a user means: a `kind` itself, its config, or one of the `known` names.

    Raises:
        ValueError: if it is none of these; the message lists the known ones, after `also`.
    """
    if isinstance(identifier, kind):
        return identifier
    if isinstance(identifier, dict):
        return of_config(name, identifier, kind)
    if not isinstance(identifier, str) or identifier not in known:
        names = ", ".join(sorted(known))
        raise ValueError(f"{name}={shown(identifier)} is unknown; choose {also}one of: {names}")
    return known[identifier]()


def of_config(name: str, config: dict[str, Any], kind: type) -> Any:
    """The object that a config of Keras describes.

    Raises:
        ValueError: if it describes no `kind`.
    """
    try:
        made = keras.saving.deserialize_keras_object(config)
    except Exception as error:  # a config may hold anything
        raise ValueError(
            f"{name}={shown(config)} is the config of no object: {first_line(error)}"
        ) from None
    if not isinstance(made, kind):
        raise ValueError(f"{name}={shown(config)} is the config of no {kind.__name__}")
    return made


def of_keras(name: str, value: Any, get: Callable[[Any], T]) -> T:
    """The object that one of Keras' `get` makes of a value: an initializer, an activation, a loss.

    Raises:
        ValueError: if it makes nothing of it.
    """
    try:
        return get(value)
    except Exception as error:
        raise ValueError(
            f"{name}={shown(value)} is not known to Keras: {first_line(error)}"
        ) from None


def initializer(name: str, value: Any, *, for_configs: bool = False) -> Any:
    """The initializer of Keras that a user means.

    Args:
        name: the name of the argument.
        value: the value that was given.
        for_configs: whether it must be such as configs can hold, and no plain function.

    Raises:
        ValueError: if it is none.
    """
    made = of_keras(name, value, keras.initializers.get)
    is_function = isinstance(value, types.FunctionType) and not for_configs
    if not isinstance(made, keras.initializers.Initializer) and not is_function:
        raise ValueError(f"{name}={shown(value)} must be an initializer of Keras, or its name")
    return made
