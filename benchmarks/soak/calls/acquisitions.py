"""Scores of inputs to label, and choices of several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from soak.calls.case import Case, shaped
from tfbdl import Prediction, acquire, likelihoods

S, N, C = 5, 8, 4
P, Q = np.random.default_rng(4).dirichlet(np.full(C, 0.5), (2, S, N))
SCORES = np.linspace(0.0, 1.0, N)


def _classes(p: np.ndarray = P) -> Prediction:
    mean, variance, likelihood = p.mean(axis=0), p.var(axis=0), likelihoods.Categorical(False)
    entropy = likelihood.entropy(p).numpy().mean(axis=0)
    return Prediction(mean, variance, variance, entropy, S, likelihood, p)


def _reals(p: np.ndarray = P) -> Prediction:
    outputs, variance = p[..., :1], p[..., :1].var(axis=0)
    likelihood = likelihoods.Normal(0.5)
    return Prediction(outputs.mean(axis=0), variance, variance, None, S, likelihood, outputs)


def _batch(**given: Any) -> Any:
    batch = acquire.batch_bald(**given)
    return [shaped(part, given["num"]) for part in batch]


def _thompson(**given: Any) -> Any:
    return shaped(acquire.thompson(**given), given["num"])


def _top(**given: Any) -> Any:
    return shaped(acquire.top(**given), given["num"])


def cases() -> Iterator[Case]:
    """Scores of predictions, and what chooses by them."""
    for score in (acquire.bald, acquire.entropy, acquire.variation_ratios):

        def scored(score: Any = score, **given: Any) -> Any:
            return shaped(score(**given), N)

        arguments = {"prediction": (_classes(), _classes(Q))}
        yield Case(f"tfbdl.acquire.{score.__name__}", score, scored, arguments)
    drawn: dict[str, tuple[Any, Any]] = {
        "prediction": (_classes(), _classes(Q)),
        "num": (4, 3),
        "num_configurations": (10, 16),
        "seed": (0, 1),
    }
    yield Case("tfbdl.acquire.batch_bald", acquire.batch_bald, _batch, drawn)
    of_reals: dict[str, tuple[Any, Any]] = {
        "prediction": (_reals(), _reals(Q)),
        "num": (4, 3),
        "maximize": (True, False),
        "seed": (0, 1),
    }
    yield Case("tfbdl.acquire.thompson", acquire.thompson, _thompson, of_reals)
    of_scores: dict[str, tuple[Any, Any]] = {"scores": (SCORES, SCORES[::-1]), "num": (3, 2)}
    yield Case("tfbdl.acquire.top", acquire.top, _top, of_scores)
