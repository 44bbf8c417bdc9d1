"""Variational posteriors q(w), one family a file."""

from __future__ import annotations

from tfbdl.arguments import choose
from tfbdl.posteriors.base import Posterior
from tfbdl.posteriors.mean_field import MeanFieldNormal
from tfbdl.posteriors.multiplicative import MultiplicativeNormal
from tfbdl.posteriors.point import PointMass
from tfbdl.posteriors.prior_itself import PriorItself

__all__ = [
    "MeanFieldNormal",
    "MultiplicativeNormal",
    "PointMass",
    "Posterior",
    "PriorItself",
    "get",
]

_NAMES: dict[str, type[Posterior]] = {
    "mean_field": MeanFieldNormal,
    "multiplicative": MultiplicativeNormal,
    "point": PointMass,
    "prior": PriorItself,
}


def get(identifier: str | dict | Posterior, argument: str = "posterior") -> Posterior:
    """The posterior family a user means: an object, its name, or its config.

    Args:
        identifier: what the user gave.
        argument: the name of the argument, for messages.

    Raises:
        ValueError: if it is none of these.
    """
    return choose(argument, identifier, Posterior, _NAMES)
