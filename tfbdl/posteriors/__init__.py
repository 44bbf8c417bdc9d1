"""Variational posteriors q(w), one family a file."""

from __future__ import annotations

import keras

from tfbdl.posteriors.base import Posterior
from tfbdl.posteriors.mean_field import MeanFieldNormal
from tfbdl.posteriors.multiplicative import MultiplicativeNormal
from tfbdl.posteriors.point import PointMass

__all__ = ["MeanFieldNormal", "MultiplicativeNormal", "PointMass", "Posterior", "get"]

_NAMES: dict[str, type[Posterior]] = {
    "mean_field": MeanFieldNormal,
    "multiplicative": MultiplicativeNormal,
    "point": PointMass,
}


def get(identifier: str | dict | Posterior) -> Posterior:
    """The posterior family a user means: an object, its name, or its config.

    Raises:
        ValueError: if it is none of these.
    """
    if isinstance(identifier, Posterior):
        return identifier
    if isinstance(identifier, dict):
        return keras.saving.deserialize_keras_object(identifier)
    if identifier not in _NAMES:
        known = ", ".join(sorted(_NAMES))
        raise ValueError(f"posterior={identifier!r} is unknown; choose one of: {known}")
    return _NAMES[identifier]()
