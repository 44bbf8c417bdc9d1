"""Bayesian last layers in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras

from soak.calls.case import TARGETS, Case, Made, N, Wrong, X, answers, shaped
from soak.calls.networks import line, network, regression
from tfbdl import inference


def _neural_linear(**given: Any) -> Any:
    found = inference.NeuralLinear(**given).fit(X, TARGETS)
    prediction = found.predict(X)
    return {
        "mean": shaped(prediction.mean, N, 1),
        "stddev": shaped(prediction.stddev, N, 1),
        "evidence": found.log_marginal_likelihood(),
    }


def _of_neural_linear(method: str, sigma: float | None, **given: Any) -> Any:
    model = network(keras.layers.Dense(2, "tanh", kernel_initializer="ones"), keras.layers.Dense(1))
    found = inference.NeuralLinear(model, sigma_noise=sigma).fit(X, TARGETS)
    result = getattr(found, method)(**given)
    if result is found:
        return [found.log_marginal_likelihood(), found.prior_precision, found.sigma_noise]
    return answers(result)


def cases() -> Iterator[Case]:
    """With a known noise and an unknown one."""
    neural = {
        "model": (Made(regression), Made(line)),
        "prior_precision": (1.0, 2.0),
        "dtype": ("float32", "float64"),
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
    size = {"batch_size": (1000, Wrong(0))}
    data = {"x": (X, X + 1.0), "y": (TARGETS, TARGETS + 1.0), **size}
    draws = {"n_samples": (3, 2), "seed": (0, 1)}
    of_linear: dict[str, dict[str, tuple[Any, Any]]] = {
        "fit": data,
        "update": data,
        "predict": {
            "x": (X, X + 1.0),
            "n_samples": (None, 3),
            "seed": (0, Wrong("abc")),
            "return_samples": (False, True),
            **size,
        },
        "sample": draws,
        "ensemble": draws,
        "function_moments": {"x": (X, X + 1.0), **size},
        "log_marginal_likelihood": {"prior_precision": (None, 2.0), "sigma_noise": (None, 0.5)},
        "optimize_prior_precision": {
            "prior_structure": ("scalar", "layerwise"),
            "with_noise": (False, True),
        },
    }
    for method, arguments in of_linear.items():
        for mode, sigma in (("known", 0.7), ("unknown", None)):
            yield Case(
                f"NeuralLinear.{method}, {mode} noise",
                getattr(inference.NeuralLinear, method),
                lambda method=method, sigma=sigma, **given: _of_neural_linear(
                    method, sigma, **given
                ),
                arguments,
                slow=True,
            )
