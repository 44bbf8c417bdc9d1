"""Conformal methods, fitted and asked, and the quantile that they take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from soak.calls.case import TARGETS, Case, N, X, shaped
from tfbdl import Prediction, conformal, likelihoods

RNG = np.random.default_rng(2)
P, Q = RNG.dirichlet(np.ones(5), (2, 40))
Y, OTHER = RNG.integers(5, size=(2, 40))
SCORES = np.linspace(0.0, 1.0, N)


def _classes(p: np.ndarray = P) -> Prediction:
    variance, likelihood = np.full(p.shape, 0.25), likelihoods.Categorical()
    return Prediction(p, variance, variance, np.ones(len(p)), 5, likelihood, None)


def _reals(shift: float = 0.0) -> Prediction:
    outputs = (X[:, :1] + shift + np.linspace(-1.0, 1.0, 5)[:, None, None]).astype("float32")
    mean, variance = outputs.mean(axis=0), np.linspace(0.1, 0.5, N)[:, np.newaxis]
    return Prediction(mean, variance, variance, np.ones(N), 5, likelihoods.Normal(0.5), outputs)


def _answer(
    method: conformal.Conformal, prediction: Prediction, y: np.ndarray, coverage: float = 0.6
) -> Any:
    actual = method.fit(prediction, y).predict(prediction, coverage)
    parts = actual if isinstance(actual, conformal.Intervals) else [actual]
    return [shaped(part, *prediction.mean.shape) for part in parts]


def _quantile(scores: Any, coverage: Any) -> Any:
    quantile = shaped(conformal.quantile(scores, coverage), *np.shape(scores)[1:])
    too_few = np.ceil((len(scores) + 1) * coverage) > len(scores)
    return "infinite, as documented" if too_few and np.isinf(quantile).all() else quantile


def cases() -> Iterator[Case]:
    """Each method, its two calls, and the quantile."""
    reals = {"prediction": (_reals(), _reals(0.3)), "y": (TARGETS, TARGETS + 1.0)}
    classes = {"prediction": (_classes(), _classes(Q)), "y": (Y, OTHER)}
    by_class = {"by_class": (False, True)}
    drawn = {**by_class, "randomized": (True, False), "seed": (0, 1)}
    penalised = {**drawn, "penalty": (0.2, 0.01), "free": (0, 4)}
    families: dict[str, tuple[Any, Any]] = {
        "Split": ({"normalized": (True, False)}, reals),
        "CQR": ({}, reals),
        "LAC": (by_class, classes),
        "APS": (drawn, classes),
        "RAPS": (penalised, classes),
    }
    for name, (arguments, data) in families.items():
        kind = getattr(conformal, name)
        prediction, y = (value for value, _ in data.values())

        def made(kind: Any = kind, data: Any = (prediction, y), **arguments: Any) -> Any:
            return _answer(kind(**arguments), *data)

        def fitted(kind: Any = kind, **data: Any) -> Any:
            return _answer(kind(), **data)

        def asked(kind: Any = kind, y: Any = y, **given: Any) -> Any:
            return _answer(kind(), y=y, **given)

        yield Case(f"tfbdl.conformal.{name}", kind, made, arguments)
        yield Case(f"{name}.fit", kind.fit, fitted, data)
        of_predict = {"prediction": data["prediction"], "coverage": (0.6, 0.3)}
        yield Case(f"{name}.predict", kind.predict, asked, of_predict)
    yield Case(
        "tfbdl.conformal.quantile",
        conformal.quantile,
        _quantile,
        {"scores": (SCORES, SCORES**2), "coverage": (0.5, 0.8)},
    )


BASES = (conformal.Conformal,)
"""What cannot be used itself."""
