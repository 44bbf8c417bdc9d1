"""Priors p(w), one family a file."""

from __future__ import annotations

import keras

from tfbdl.priors.base import Prior
from tfbdl.priors.flat import Flat
from tfbdl.priors.log_uniform import LogUniform
from tfbdl.priors.normal import Normal

__all__ = ["Flat", "LogUniform", "Normal", "Prior", "get"]

_NAMES = {"flat": Flat, "log_uniform": LogUniform, "normal": Normal}


def get(identifier: float | str | dict | Prior) -> Prior:
    """The prior a user means: an object, its name, its config, or the scale of a `Normal`.

    Raises:
        ValueError: if the name is unknown.
    """
    if isinstance(identifier, Prior):
        return identifier
    if isinstance(identifier, dict):
        return keras.saving.deserialize_keras_object(identifier)
    if isinstance(identifier, str):
        if identifier not in _NAMES:
            known = ", ".join(sorted(_NAMES))
            raise ValueError(f"prior={identifier!r} is unknown; choose a scale or one of: {known}")
        return _NAMES[identifier]()
    return Normal(identifier)
