"""Laplace approximations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import keras

from soak.calls.case import LABELS, TARGETS, Case, Made, N, Wrong, X, answers, shaped
from soak.calls.networks import classifier, network, regression
from tfbdl import inference, likelihoods


def _laplace(model: keras.Model, likelihood: Any, **given: Any) -> Any:
    laplace = inference.Laplace(model, likelihood, **given)
    outputs = model.outputs[0].shape[-1]
    laplace.fit(X, LABELS if outputs == 3 else TARGETS)
    found = laplace.predict(X, return_samples=True, n_samples=3)
    return {
        "mean": shaped(found.mean, N, outputs),
        "stddev": shaped(found.stddev, N, outputs),
        "evidence": laplace.log_marginal_likelihood(),
        "paths": [path.rpartition("/")[2] for path in laplace.paths],
        "precision": laplace.prior_precision,
    }


@cache
def kept_laplace(kind: str = "classification") -> inference.Laplace:
    """A fitted one, whose prior may be changed and is put back."""
    model, y = (classifier(), LABELS) if kind == "classification" else (regression(), TARGETS)
    return inference.Laplace(model, kind, jit_compile=False).fit(X, y)


def _of_laplace(what: str, kind: str, **given: Any) -> Any:
    laplace = kept_laplace(kind)
    laplace.prior_precision = 1.0
    found = getattr(laplace, what)(**given)
    if what == "fit":
        found = found.log_marginal_likelihood()
        laplace.fit(X, LABELS)
    elif what == "optimize_prior_precision":
        found = [laplace.prior_precision, laplace.sigma_noise]
        if laplace.sigma_noise != 1.0:
            laplace.sigma_noise = 1.0
    return answers(found)


def cases() -> Iterator[Case]:
    """The approximation of each kind of output, and its methods."""
    common = {
        "subset_of_weights": ("last_layer", "all"),
        "hessian_structure": ("kron", "diag"),
        "prior_precision": (1.0, 2.0),
        "sigma_noise": (None, 0.5),
        "curvature": ("ggn", "ef"),
        "temperature": (1.0, 0.5),
        "rank": (None, 2),
        "dtype": ("float32", "float64"),
        "jit_compile": (False, Wrong("yes")),
    }
    modes = {
        "classification": (classifier, "classification", {}),
        "regression": (regression, "regression", {}),
        "Normal": (regression, likelihoods.Normal(0.1), {}),
        "lowrank": (
            classifier,
            "classification",
            {"hessian_structure": ("lowrank", "full"), "rank": (3, 2)},
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
            slow=True,
        )
    size = {"batch_size": (None, Wrong(0))}
    predict = {"x": (X, X + 1.0), "seed": (0, 1), **size}
    methods: dict[tuple[str, str], dict[str, tuple[Any, Any]]] = {
        ("fit", "classification"): {"x": (X, X + 1.0), "y": (LABELS, (LABELS + 1) % 3), **size},
        ("predict", "classification"): {
            **predict,
            "pred_type": ("glm", "nn"),
            "link_approx": (None, "mc"),
            "n_samples": (3, 2),
            "return_samples": (False, True),
        },
        ("predict", "regression"): {
            **predict,
            "seed": (0, Wrong("abc")),
            "pred_type": ("glm", "nn"),
            "link_approx": (None, "mc"),
            "n_samples": (None, 3),
            "return_samples": (False, True),
        },
        ("sample", "classification"): {"n_samples": (3, 2), "seed": (0, 1)},
        ("ensemble", "classification"): {"n_samples": (3, 2), "seed": (0, 1)},
        ("function_moments", "classification"): {"x": (X, X + 1.0), **size},
        ("log_marginal_likelihood", "regression"): {
            "prior_precision": (None, 2.0),
            "sigma_noise": (None, 0.5),
        },
        ("optimize_prior_precision", "regression"): {
            "method": ("marglik", "gridsearch"),
            "prior_structure": ("scalar", "layerwise"),
            "x": (None, X),
            "y": (None, TARGETS),
            "with_noise": (False, True),
            "grid": (None, (0.1, 1.0)),
        },
        ("optimize_prior_precision", "classification"): {
            "method": ("gridsearch", "marglik"),
            "prior_structure": ("scalar", "layerwise"),
            "x": (X, X + 1.0),
            "y": (LABELS, LABELS[:3]),
            "with_noise": (False, True),
            "grid": ((0.1, 1.0), (0.01,)),
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
