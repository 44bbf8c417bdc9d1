"""Checks that predictions are finite; an error names the likely cause."""

from __future__ import annotations

import keras
import numpy as np

from tfbdl import likelihoods
from tfbdl.likelihoods import Likelihood

_ALWAYS_FINITE = (
    *(likelihoods.Bernoulli, likelihoods.Beta, likelihoods.Categorical),
    likelihoods.ContinuousBernoulli,
    *(likelihoods.Gamma, likelihoods.LogNormal, likelihoods.NegativeBinomial, likelihoods.Normal),
    *(likelihoods.NormalMixture, likelihoods.Poisson, likelihoods.Quantiles, likelihoods.StudentT),
)
"""Laws whose moments and entropies are finite: an infinite one has overflowed."""


def check_finite(
    model: keras.Model | None,
    likelihood: Likelihood | None,
    *,
    mean: np.ndarray,
    epistemic_variance: np.ndarray,
    aleatoric_variance: np.ndarray,
    expected_entropy: np.ndarray,
) -> None:
    """Raises ValueError where a prediction is NaN, or infinite where only an overflow can be so.

    The variance and the entropy of the noise may be infinite under a law of the user's own.
    """
    of_functions = {"mean": mean, "epistemic_variance": epistemic_variance}
    of_noise = {"aleatoric_variance": aleatoric_variance, "expected_entropy": expected_entropy}
    for name, values in of_functions.items():
        refuse(name, values, ~np.isfinite(values), model, likelihood)
    overflows = isinstance(likelihood, _ALWAYS_FINITE)
    for name, values in of_noise.items():
        wrong = ~np.isfinite(values) if overflows else np.isnan(values)
        refuse(name, values, wrong, model, likelihood)


def refuse(
    name: str,
    values: np.ndarray,
    wrong: np.ndarray,
    model: keras.Model | None,
    likelihood: Likelihood | None,
) -> None:
    """Raises ValueError if any of the values, shape (N, ...), is wrong: which, where and why."""
    if not wrong.any():
        return
    index = tuple(np.argwhere(wrong)[0])
    raise ValueError(
        f"{name} is {values[index]} for example {index[0]}: {_likely_cause(model, likelihood)}"
    )


def _likely_cause(model: keras.Model | None, likelihood: Likelihood | None) -> str:
    for weight in [] if model is None else model.weights:
        if (
            weight.dtype.startswith("float")
            and not np.isfinite(keras.ops.convert_to_numpy(weight)).all()
        ):
            return f"weight={weight.path} of the model is not finite; its training has diverged"
    if likelihood is None:
        return "the outputs of the model overflow; scale x and y, or compute in float64"
    return (
        f"{type(likelihood).__name__} overflows at outputs so large; bound those of the model, "
        "scale x and y, or compute in float64"
    )
