"""What is asked of a network that is drawn many times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

import tfbdl
from soak.calls.case import (
    LABELS,
    STEPS,
    TARGETS,
    WEIGHTED,
    Case,
    Made,
    N,
    Wrong,
    X,
    folder,
    shaped,
)
from soak.calls.networks import dropout_network, kept_network
from tfbdl import likelihoods


def _prediction(x: Any, **given: Any) -> Any:
    prediction = tfbdl.predict(x=x, **given)
    parts = {
        name: value for name, value in vars(prediction).items() if name not in ("joint", "marginal")
    }
    if isinstance(x, np.ndarray):
        shaped(prediction.mean, len(x), 3)
    shaped(prediction.epistemic_variance, *prediction.mean.shape)
    return parts


def _exported(path: Any, format: Any, **given: Any) -> Any:
    tfbdl.export(path=path, format=format, **given)
    if format == "litert":
        return [path.name, dict(Interpreter(str(path)).get_signature_runner()(x=X))]
    serve = tf.saved_model.load(str(path)).signatures["serving_default"]
    return [sorted(part.name for part in path.iterdir()), dict(serve(tf.constant(X)))]


def _loaded(path: Path) -> Any:
    model = tfbdl.load(path)
    return [shaped(model(X), N, 3), model.get_config()]


def _file(seed: int) -> Path:
    path = folder() / f"{seed}.keras"
    kept_network(seed).save(path)
    return path


MODEL = (Made(kept_network), Made(lambda: kept_network(2)))
LIKELIHOOD = (None, Made(lambda: likelihoods.Normal(2.0)))
DRAWN: dict[str, tuple[Any, Any]] = {
    "model": MODEL,
    "x": (X, X[::-1]),
    "num_samples": (3, 2),
    "batch_size": (None, Wrong(0)),
    **STEPS,
    "seed": (0, 1),
    "likelihood": LIKELIHOOD,
    "jit_compile": (None, Wrong("yes")),
}
NORMAL = likelihoods.Normal(0.5)


def _kept() -> tfbdl.Prediction:
    outputs = np.stack([TARGETS, TARGETS + 1.0]).astype("float32")
    variance, entropy = np.ones_like(TARGETS), np.ones(N)
    return tfbdl.Prediction(outputs.mean(axis=0), variance, variance, entropy, 2, NORMAL, outputs)


def cases() -> Iterator[Case]:
    """Each function, and each method of what it gives."""
    yield from _asked()
    yield from _files()
    yield from _methods()


def _asked() -> Iterator[Case]:
    shown = {"return_samples": (False, True), "verbose": (0, Wrong("loud"))}
    yield Case("tfbdl.predict", tfbdl.predict, _prediction, {**DRAWN, **shown}, slow=True)
    labelled = {**DRAWN, "y": (LABELS, (LABELS + 1) % 3)}
    weighted = {**labelled, **WEIGHTED}
    of_outputs = {"likelihood": "these outputs describe"}
    yield Case("tfbdl.elbo", tfbdl.elbo, tfbdl.elbo, weighted, of_outputs, slow=True)
    yield Case(
        "tfbdl.log_predictive_density",
        tfbdl.log_predictive_density,
        lambda y, **given: shaped(tfbdl.log_predictive_density(y=y, **given), len(y)),
        labelled,
        of_outputs,
        slow=True,
    )


def _files() -> Iterator[Case]:
    yield Case(
        "tfbdl.export",
        tfbdl.export,
        _exported,
        {
            "model": (Made(dropout_network), Made(lambda: dropout_network(0.2))),
            "path": (Made(lambda: folder() / "a"), Made(folder)),
            "num_samples": (3, 2),
            "format": (None, "litert"),
            "seed": (0, 1),
            "likelihood": LIKELIHOOD,
        },
        slow=True,
    )
    yield Case(
        "tfbdl.load",
        tfbdl.load,
        _loaded,
        {"path": (Made(lambda: _file(1)), Made(lambda: _file(2)))},
    )


def _methods() -> Iterator[Case]:
    yield Case(
        "Prediction.interval",
        tfbdl.Prediction.interval,
        lambda level: [shaped(end, N, 1) for end in _kept().interval(level)],
        {"level": (0.95, 0.5)},
        slow=True,
    )
    yield Case(
        "Prediction.quantile",
        tfbdl.Prediction.quantile,
        lambda q: shaped(_kept().quantile(q), N, 1),
        {"q": (0.9, 0.2)},
        slow=True,
    )
    yield Case(
        "Prediction.cdf",
        tfbdl.Prediction.cdf,
        lambda y: shaped(_kept().cdf(y), N, 1),
        {"y": (TARGETS, TARGETS + 1.0)},
    )
    yield Case(
        "Prediction.log_prob",
        tfbdl.Prediction.log_prob,
        lambda y: shaped(_kept().log_prob(y), N),
        {"y": (TARGETS, TARGETS + 2.0)},
    )
