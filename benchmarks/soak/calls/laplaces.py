"""Laplace and empirical Bayes, and what they answer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import keras

import tfbdl
from soak.calls.answers import DRAWS, answered, asked
from soak.calls.case import LABELS, TARGETS, WEIGHTED, Case, Made, N, Wrong, X, folder, shaped
from soak.calls.networks import classifier, network, noisy, regression
from tfbdl import inference, likelihoods

SIZE = {"batch_size": (None, Wrong(0))}


def _laplace(model: keras.Model, **given: Any) -> Any:
    laplace = inference.Laplace(model, **given)
    outputs = model.outputs[0].shape[-1]
    laplace.fit(X, LABELS if outputs == 3 else TARGETS)
    prediction = tfbdl.predict(laplace, X, 3, seed=0, return_samples=True, verbose=0)
    return {
        "mean": shaped(prediction.mean, N, outputs),
        "stddev": shaped(prediction.stddev, N, outputs),
        "evidence": laplace.log_marginal_likelihood(),
        "paths": laplace.paths,
        "precision": laplace.prior_precision,
        "called": laplace.name,
        "dtype": laplace.get_config()["dtype"],
    }


@cache
def kept_laplace(kind: str = "classes") -> inference.Laplace:
    """A fitted one, whose prior may be changed and is put back."""
    model, y = (classifier(), LABELS) if kind == "classes" else (noisy(), TARGETS)
    return inference.Laplace(model, jit_compile=False).fit(X, y)


def _of_laplace(what: str, kind: str, **given: Any) -> Any:
    laplace = kept_laplace(kind)
    laplace.prior_precision = 1.0
    actual = getattr(laplace, what)(**given)
    if what == "as_prior":
        with actual:
            actual = sum(laplace.model.losses)
    elif what in ("fit", "update"):
        actual = actual.log_marginal_likelihood()
        laplace.fit(X, LABELS)
    elif what == "optimize_prior_precision":
        actual = [laplace.prior_precision, laplace.sigma_noise]
        if laplace.has_known_noise:
            laplace.sigma_noise = 0.7
    return answered(actual)


def _saved(path: Path) -> Any:
    kept_laplace().save(path)
    return sorted(p.name for p in Path(path).parent.iterdir())


def _evidence(laplace: Any, **given: Any) -> Any:
    callback = inference.EmpiricalBayes(laplace, **given)
    history = laplace.model.fit(X, LABELS, 3, 3, callbacks=[callback], verbose=0).history
    actual = callback.log_marginal_likelihood
    return [history, laplace.prior_precision, list(actual), list(actual.values())]


def _trained_laplace() -> inference.Laplace:
    return inference.Laplace(classifier(), jit_compile=False)


def cases() -> Iterator[Case]:
    """The method, what it answers, and the callback that trains under its evidence."""
    yield from _constructors()
    yield from _methods()
    yield asked("Laplace, classes", kept_laplace, (3, 2), (0, 1))
    yield asked("Laplace, noise", lambda: kept_laplace("noise"), (1, 3), (0, Wrong("abc")))
    yield Case(
        "Laplace.save",
        inference.Laplace.save,
        _saved,
        {"path": (Made(lambda: folder() / "one.keras"), Made(lambda: folder() / "two.keras"))},
        slow=True,
    )
    yield Case(
        "tfbdl.inference.EmpiricalBayes",
        inference.EmpiricalBayes,
        _evidence,
        {
            "laplace": (Made(_trained_laplace), Made(lambda: None)),
            "x": (X, X + 1.0),
            "y": (LABELS, (LABELS + 1) % 3),
            **WEIGHTED,
            "prior_structure": ("layerwise", "scalar"),
            "start": (0, 1),
            "every": (1, 2),
        },
        slow=True,
    )


def _constructors() -> Iterator[Case]:
    common = {
        "subset_of_weights": ("last_layer", "all"),
        "hessian_structure": ("kron", "diag"),
        "prior_precision": (1.0, 2.0),
        "sigma_noise": (None, 0.5),
        "curvature": ("ggn", "ef"),
        "temperature": (1.0, 0.5),
        "rank": (None, 2),
        "subnetwork_size": (None, Wrong(3)),
        "prior_mean": (0.0, 0.3),
        "dtype": ("float32", "float64"),
        "pred_type": ("glm", "nn"),
        "link_approx": (None, "mc"),
        "jit_compile": (False, Wrong("yes")),
        "name": ("one", "two"),
    }
    modes = {
        "classes": (classifier, None, {}),
        "noise": (noisy, None, {}),
        "Normal": (regression, likelihoods.Normal(0.1), {}),
        "lowrank": (
            classifier,
            None,
            {"hessian_structure": ("lowrank", "full"), "rank": (3, 2)},
        ),
        "subnetwork": (
            classifier,
            None,
            {
                "hessian_structure": ("subnetwork", Wrong("full")),
                "rank": (None, Wrong(3)),
                "subnetwork_size": (5, 2),
            },
        ),
    }
    for mode, (build, likelihood, own) in modes.items():
        yield Case(
            f"tfbdl.inference.Laplace, {mode}",
            inference.Laplace,
            _laplace,
            {
                **common,
                "model": (Made(build), Made(lambda: network(keras.layers.Dense(1)))),
                "likelihood": (likelihood, Made(likelihoods.StudentT)),
                **own,
            },
            {"likelihood": "these outputs describe"},
            slow=True,
        )


def _methods() -> Iterator[Case]:
    methods: dict[tuple[str, str], dict[str, tuple[Any, Any]]] = {
        ("fit", "classes"): {
            "x": (X, X + 1.0),
            "y": (LABELS, (LABELS + 1) % 3),
            **WEIGHTED,
            **SIZE,
        },
        ("update", "classes"): {
            "x": (X, X + 1.0),
            "y": (LABELS, (LABELS + 1) % 3),
            **WEIGHTED,
            **SIZE,
        },
        ("as_prior", "classes"): {"num_data": (6, Wrong(0))},
        ("sample", "classes"): DRAWS,
        ("ensemble", "classes"): DRAWS,
        ("function_moments", "classes"): {"x": (X, X + 1.0), **SIZE},
        ("log_marginal_likelihood", "noise"): {
            "prior_precision": (None, 2.0),
            "sigma_noise": (None, 0.5),
        },
        ("optimize_prior_precision", "noise"): {
            "method": ("marglik", "gridsearch"),
            "prior_structure": ("scalar", "layerwise"),
            "x": (None, Wrong(X)),
            "y": (None, Wrong(TARGETS)),
            "with_noise": (False, True),
            "grid": (None, Wrong((0.1, 1.0))),
        },
        ("optimize_prior_precision", "classes"): {
            "method": ("gridsearch", "marglik"),
            "prior_structure": ("scalar", "layerwise"),
            "x": (X, -X),
            "y": (LABELS, LABELS[:3]),
            "with_noise": (False, True),
            "grid": ((0.01, 0.1, 1.0, 10.0), (0.5,)),
        },
    }
    for (method, kind), arguments in methods.items():
        yield Case(
            f"Laplace.{method}, {kind}",
            getattr(inference.Laplace, method),
            lambda what=method, kind=kind, **given: _of_laplace(what, kind, **given),
            arguments,
            slow=True,
        )
