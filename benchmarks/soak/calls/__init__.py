"""How each public callable is called in good order: what is attacked, and what is heard."""

from __future__ import annotations

from soak.calls import (
    commands,
    figures,
    inferences,
    layers,
    losses,
    networks,
    scores,
    sets,
    weights,
)
from soak.calls.case import Case

__all__ = ["BASES", "Case", "all_cases"]

BASES = (*weights.BASES, *losses.BASES, *inferences.BASES)
"""Public classes that have to be derived from."""


def all_cases() -> list[Case]:
    """In a fixed order."""
    modules = (layers, weights, losses, scores, figures, sets, networks, inferences, commands)
    return [case for module in modules for case in module.cases()]
