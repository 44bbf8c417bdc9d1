"""What a network may say of y given x beside its mean: one network a head, stopped in time."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import Any

from tfbdl.likelihoods import Likelihood, Normal, NormalMixture, Quantiles
from tfbdl.predictive import Prediction
from tutorials.uci.networks import Layers, one_noise, predicted_noise, sequential, with_outputs
from tutorials.uci.split import Split
from tutorials.uci.when_to_stop import best_of_path

Outcome = tuple[Prediction, dict[str, Any]]

COMPONENTS = 3
"""Normal laws of a mixture."""
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles, with the ends of the interval that is judged."""


def constant_normal(data: Split, args: argparse.Namespace) -> Outcome:
    """A normal law with one noise for all x."""
    return _stopped(one_noise, Normal("predicted"), data, args)


def normal(data: Split, args: argparse.Namespace) -> Outcome:
    """A normal law whose noise differs with x."""
    return _stopped(predicted_noise, Normal("predicted"), data, args)


def mixture(data: Split, args: argparse.Namespace) -> Outcome:
    """Several normal laws, with weights that differ with x."""
    layers = functools.partial(with_outputs, 3 * COMPONENTS)
    return _stopped(layers, NormalMixture(COMPONENTS), data, args)


def quantiles(data: Split, args: argparse.Namespace) -> Outcome:
    """Quantiles that do not cross."""
    layers = functools.partial(with_outputs, len(LEVELS))
    return _stopped(layers, Quantiles(LEVELS), data, args)


HEADS = {
    "head_constant_normal": constant_normal,
    "head_normal": normal,
    "head_mixture": mixture,
    "head_quantiles": quantiles,
}


def _stopped(
    layers: Callable[[argparse.Namespace], Layers],
    likelihood: Likelihood,
    data: Split,
    args: argparse.Namespace,
) -> Outcome:
    """The prediction of one network."""
    return best_of_path(lambda data: sequential(layers(args), data), likelihood, 0, data, args)
