"""Conformal methods, fitted and asked, and the quantile that they take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from soak.calls.case import LABELS, TARGETS, Case, N, X, shaped
from tfbdl import Prediction, conformal, likelihoods

P, Q = np.random.default_rng(2).dirichlet(np.ones(3), (2, 5, N))
SCORES = np.linspace(0.0, 1.0, N)


def _classes(p: np.ndarray = P) -> Prediction:
    outputs = np.log(p).astype("float32")
    return _prediction(p.mean(axis=0), likelihoods.Categorical(), outputs)


def _reals(shift: float = 0.0) -> Prediction:
    outputs = (X[:, :1] + shift + np.linspace(-1.0, 1.0, 5)[:, None, None]).astype("float32")
    return _prediction(outputs.mean(axis=0), likelihoods.Normal(0.5), outputs)


def _prediction(mean: np.ndarray, likelihood: Any, outputs: np.ndarray) -> Prediction:
    variance = np.full(mean.shape, likelihood.scale**2 if mean.shape[1] == 1 else 0.25)
    return Prediction(mean, variance, variance, np.ones(N), 5, likelihood, outputs)


def _fitted(kind: type, prediction: Prediction, y: np.ndarray, coverage: float = 0.6) -> Any:
    found = kind().fit(prediction, y).predict(prediction, coverage)
    sets = [found] if isinstance(found, np.ndarray) else list(found)
    return [shaped(part, *prediction.mean.shape) for part in sets]


def cases() -> Iterator[Case]:
    """Each method, its two calls, and the quantile."""
    reals = {"prediction": (_reals(), _reals(0.3)), "y": (TARGETS, TARGETS + 1.0)}
    classes = {"prediction": (_classes(), _classes(Q)), "y": (LABELS, LABELS[::-1])}
    by_class = {"by_class": (False, True)}
    drawn = {**by_class, "randomized": (True, False), "seed": (0, 1)}
    penalised = {**drawn, "penalty": (0.1, 0.5), "free": (1, 0)}
    families: dict[str, tuple[Any, Any]] = {
        "Split": ({"normalized": (True, False)}, reals),
        "CQR": ({}, reals),
        "LAC": (by_class, classes),
        "APS": (drawn, classes),
        "RAPS": (penalised, classes),
    }
    for name, (arguments, data) in families.items():
        kind = getattr(conformal, name)
        given = [value for value, _ in data.values()]

        def made(kind: Any = kind, data: Any = given, **arguments: Any) -> Any:
            found = kind(**arguments)
            return _fitted(lambda: found, *data)

        yield Case(f"tfbdl.conformal.{name}", kind, made, arguments)
        yield Case(f"{name}.fit", kind.fit, lambda kind=kind, **given: _fitted(kind, **given), data)
        yield Case(
            f"{name}.predict",
            kind.predict,
            lambda prediction, coverage, kind=kind, y=given[1]: _fitted(
                kind, prediction, y, coverage
            ),
            {"prediction": data["prediction"], "coverage": (0.6, 0.3)},
        )
    yield Case(
        "tfbdl.conformal.quantile",
        conformal.quantile,
        lambda **given: shaped(conformal.quantile(**given)),
        {"scores": (SCORES, SCORES**2), "coverage": (0.5, 0.8)},
    )


BASES = (conformal.Conformal,)
"""What cannot be used itself."""
