"""The exact last layer, and what it answers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import keras

import tfbdl
from soak.calls.answers import DRAWS, answered, asked
from soak.calls.case import TARGETS, WEIGHTED, Case, Made, N, Wrong, X, shaped
from soak.calls.networks import line, network, regression
from tfbdl import inference

SIZE = {"batch_size": (32, Wrong(0))}


def _neural_linear(**given: Any) -> Any:
    fitted = inference.NeuralLinear(**given).fit(X, TARGETS)
    prediction = tfbdl.predict(fitted, X, verbose=0)
    return {
        "mean": shaped(prediction.mean, N, 1),
        "stddev": shaped(prediction.stddev, N, 1),
        "evidence": fitted.log_marginal_likelihood(),
        "called": fitted.name,
        "dtype": fitted.get_config()["dtype"],
    }


def _linear(sigma: float | None) -> inference.NeuralLinear:
    model = network(keras.layers.Dense(2, "tanh", kernel_initializer="ones"), keras.layers.Dense(1))
    return inference.NeuralLinear(model, sigma_noise=sigma).fit(X, TARGETS)


def _of_neural_linear(what: str, sigma: float | None, **given: Any) -> Any:
    actual = _linear(sigma)
    result = getattr(actual, what)(**given)
    if result is actual:
        return [actual.log_marginal_likelihood(), actual.prior_precision, actual.sigma_noise]
    return answered(result)


def cases() -> Iterator[Case]:
    """The method under known and unknown noise, and what it answers."""
    for mode, sigma in (("known", 0.7), ("unknown", None)):
        posterior = partial(_linear, sigma)
        yield asked(f"NeuralLinear, {mode} noise", posterior, (1, 3), (0, Wrong("abc")))
    neural = {
        "model": (Made(regression), Made(line)),
        "prior_precision": (1.0, 2.0),
        "dtype": ("float32", "float64"),
        "name": ("one", "two"),
    }
    noises = {
        "known": ((0.5, 1.0), (None, (1.0, 1.0))),
        "unknown": ((None, 1.0), (None, (2.0, 1.0))),
    }
    for mode, (sigma, noise_prior) in noises.items():
        yield Case(
            f"tfbdl.inference.NeuralLinear, {mode} noise",
            inference.NeuralLinear,
            _neural_linear,
            {**neural, "sigma_noise": sigma, "noise_prior": noise_prior},
            slow=True,
        )
    yield from _methods()


def _methods() -> Iterator[Case]:
    data = {"x": (X, X + 1.0), "y": (TARGETS, TARGETS + 1.0), **WEIGHTED, **SIZE}
    of_linear: dict[str, dict[str, tuple[Any, Any]]] = {
        "fit": data,
        "update": data,
        "sample": DRAWS,
        "ensemble": DRAWS,
        "function_moments": {"x": (X, X + 1.0), **SIZE},
        "log_marginal_likelihood": {"prior_precision": (None, 2.0), "sigma_noise": (None, 0.5)},
        "optimize_prior_precision": {
            "method": ("marglik", Wrong("cv")),
            "prior_structure": ("scalar", "layerwise"),
            "x": (None, Wrong(X)),
            "y": (None, Wrong(TARGETS)),
            "with_noise": (False, True),
            "grid": (None, Wrong((0.1, 1.0))),
        },
    }
    for method, arguments in of_linear.items():
        for mode, sigma in (("known", 0.7), ("unknown", None)):
            yield Case(
                f"NeuralLinear.{method}, {mode} noise",
                getattr(inference.NeuralLinear, method),
                lambda what=method, sigma=sigma, **given: _of_neural_linear(what, sigma, **given),
                arguments,
                slow=True,
            )
