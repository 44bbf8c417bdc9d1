"""How each public callable is called in good order: what is attacked, and what is heard."""

from __future__ import annotations

from soak.calls import (
    acquisitions,
    chains,
    checkings,
    commands,
    conformals,
    conversions,
    detectors,
    figures,
    laplaces,
    layers,
    losses,
    models,
    neural_linears,
    paths,
    predictions,
    samplers,
    scores,
    sets,
    training,
    weights,
    wrappers,
)
from soak.calls.case import Case

__all__ = ["BASES", "Case", "all_cases"]

BASES = (
    *conformals.BASES,
    *detectors.BASES,
    *weights.BASES,
    *losses.BASES,
    *training.BASES,
    *chains.BASES,
)
"""Public classes that have to be derived from."""

MODULES = (
    *(layers, wrappers, weights, losses, samplers, scores, figures, sets),
    *(
        training,
        predictions,
        checkings,
        acquisitions,
        conformals,
        detectors,
        conversions,
        models,
        chains,
        laplaces,
        neural_linears,
        paths,
        commands,
    ),
)


def all_cases() -> list[Case]:
    """All cases in a fixed order."""
    return [case for module in MODULES for case in module.cases()]
