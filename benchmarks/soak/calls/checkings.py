"""Data that priors and posteriors make, beside those observed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from soak.calls.case import TARGETS, Case, Made, N, Wrong, X, shaped
from tfbdl import Prediction, checking, layers, likelihoods

REPLICATES = np.stack([TARGETS, TARGETS + 1.0, 2.0 * TARGETS])


def _network(prior: float = 1.0) -> keras.Model:
    dense = layers.BayesDense(1, num_data=N, prior=prior, seed=1)
    model = keras.Sequential([keras.Input((4,)), dense])
    model.compile("sgd", likelihoods.Normal(0.5))
    return model


def _prediction(shift: float = 0.0) -> Prediction:
    outputs = (REPLICATES + shift).astype("float32")
    mean, zero = outputs.mean(axis=0), np.zeros_like(TARGETS)
    return Prediction(mean, zero, zero, None, 3, likelihoods.Normal(0.5), outputs)


def _of_prior(x: Any, num_samples: Any = 3, **given: Any) -> Any:
    prediction = checking.prior_predictive(x=x, num_samples=num_samples, **given)
    shaped(prediction.outputs, num_samples, len(prediction), 1)
    return [prediction.mean, prediction.stddev, prediction.outputs]


def _checked(**given: Any) -> Any:
    return checking.predictive_check(**given)._asdict()


def _arviz(**given: Any) -> Any:
    groups = checking.to_arviz(**given)
    names = ("log_likelihood", "posterior_predictive", "observed_data")
    return {name: np.asarray(groups[name]["y"]) for name in names}


def cases() -> Iterator[Case]:
    """Each function."""
    yield Case(
        "tfbdl.checking.prior_predictive",
        checking.prior_predictive,
        _of_prior,
        {
            "model": (Made(_network), Made(lambda: _network(3.0))),
            "x": (X, X[::-1]),
            "num_samples": (3, 2),
            "prior": (None, Wrong(1.0)),
            "batch_size": (None, Wrong(0)),
            "seed": (0, 1),
            "likelihood": (None, Made(lambda: likelihoods.Normal(2.0))),
        },
        slow=True,
    )
    yield Case(
        "tfbdl.checking.replicate",
        checking.replicate,
        lambda **given: keras.tree.map_structure(
            lambda y: shaped(y, 3, N, 1), checking.replicate(**given)
        ),
        {"prediction": (_prediction(), _prediction(0.5)), "seed": (0, 1)},
    )
    yield Case(
        "tfbdl.checking.predictive_check",
        checking.predictive_check,
        _checked,
        {
            "y": (TARGETS, TARGETS + 1.0),
            "replicates": (REPLICATES, REPLICATES + 1.0),
            "statistic": (Made(lambda: np.max), Made(lambda: np.std)),
        },
    )
    yield Case(
        "tfbdl.checking.to_arviz",
        checking.to_arviz,
        _arviz,
        {
            "source": (_prediction(), _prediction(0.5)),
            "y": (TARGETS, TARGETS + 1.0),
            "x": (None, Wrong(X)),
            "seed": (0, 1),
        },
        slow=True,
    )
