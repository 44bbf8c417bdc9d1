"""Predictions of the linearised network (Immer, Korzepa, Bauer 2021): f(x) ~ N(f(x), J S J^T)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.inference.laplace.joint_rows import JointRows
from tfbdl.inference.laplace.links import mean_of_classes
from tfbdl.likelihoods import Bernoulli, Categorical, Likelihood, Normal
from tfbdl.likelihoods.base import HALF_LOG_2PI_E
from tfbdl.predictive import Prediction
from tfbdl.predictive.closed_form import ClosedFormPrediction
from tfbdl.predictive.finite import check_finite
from tfbdl.predictive.moments import of_one
from tfbdl.probability import tfp

_NUMBERS = 10_000_000
"""Numbers that the draws of some examples may take: 80 MB."""


def default_link(likelihood: Likelihood) -> str:
    """The default link from normal f to p(y | x): exact where known, or else "probit" or "mc"."""
    if isinstance(likelihood, Normal) and likelihood.scale != "predicted":
        return "exact"
    return "probit" if isinstance(likelihood, (Categorical, Bernoulli)) else "mc"


def predictions(
    likelihood: Likelihood,
    mean: np.ndarray,
    covariance: np.ndarray,
    *,
    link_approx: str | None,
    **options: Any,
) -> Any:
    """`prediction`, by the default link for None; one for each of several outputs."""
    if not isinstance(likelihood, JointRows):
        link = link_approx or default_link(likelihood)
        return prediction(likelihood, mean, covariance, link_approx=link, **options)
    ends = np.cumsum(likelihood.outputs.sizes)[:-1]
    rows = np.split(covariance, ends, axis=1)
    blocks = [np.split(part, ends, axis=2)[k] for k, part in enumerate(rows)]
    parts = zip(likelihood.parts, likelihood.outputs.parts(mean), blocks, strict=True)
    each = [predictions(*part, link_approx=link_approx, **options) for part in parts]
    return keras.tree.pack_sequence_as(likelihood.joint.likelihoods, each)


def prediction(
    likelihood: Likelihood,
    mean: np.ndarray,
    covariance: np.ndarray,
    *,
    link_approx: str,
    num_samples: int,
    seed: int,
    return_samples: bool,
) -> Prediction:
    """The predictive distribution of y for normal f.

    Args:
        likelihood: p(y | f).
        mean: the mean of f, shape (N, ...) with F numbers each.
        covariance: the covariance of f at each x, shape (N, F, F).
        link_approx: "exact", "probit", "bridge" or "mc".
        num_samples: S, draws of f, from which all comes that `link_approx` does not give.
        seed: the seed of the draws.
        return_samples: whether the prediction keeps them.
    """
    draws = _draw(mean, covariance, num_samples, seed)
    if link_approx == "exact":
        outputs = np.concatenate(list(draws), axis=1) if return_samples else None
        return _exact(likelihood, mean, covariance, num_samples, outputs)
    kept, moments = [], []
    for values in draws:
        moments.append(_moments(likelihood, values))
        if return_samples:
            kept.append(values)
    average, aleatoric, epistemic, entropy = map(np.concatenate, zip(*moments, strict=True))
    if link_approx != "mc":
        average = mean_of_classes(likelihood, link_approx, mean, covariance)
    moments_of_y: dict[str, Any] = {
        "mean": _single(average),
        "aleatoric_variance": _single(aleatoric),
        "epistemic_variance": _single(epistemic),
        "expected_entropy": _single(entropy),
    }
    check_finite(None, likelihood, **moments_of_y)
    if not likelihood.has_entropy:
        moments_of_y["expected_entropy"] = None
    return Prediction(
        **moments_of_y,
        num_samples=num_samples,
        likelihood=likelihood,
        outputs=np.concatenate(kept, axis=1) if return_samples else None,
    )


def _draw(
    mean: np.ndarray, covariance: np.ndarray, num_samples: int, seed: int
) -> Iterator[np.ndarray]:
    """Values of f, shape (S, n, ...), independent between examples, of one part after the other."""
    size = max(_NUMBERS // (num_samples * covariance.shape[1]), 1)
    for number, start in enumerate(range(0, len(mean), size)):
        part = slice(start, start + size)
        values, vectors = np.linalg.eigh(covariance[part])
        root = vectors * np.sqrt(np.maximum(values, 0.0))[:, np.newaxis]
        key = random.fold_in(random.key_of(seed, "outputs"), number)
        noise = random.normal(key, [num_samples, *values.shape], "float64").numpy()
        deviations = np.einsum("nij,snj->sni", root, noise)
        yield _single(mean[part] + deviations.reshape(num_samples, *mean[part].shape))


def _moments(likelihood: Likelihood, draws: np.ndarray) -> tuple[np.ndarray, ...]:
    """E[y], its mean noise, its variance over draws, and the mean entropy given f."""
    one = of_one(tf.constant(draws.reshape(-1, *draws.shape[2:])), likelihood)
    mean, variance, entropy = (
        v.numpy().reshape(len(draws), -1, *v.shape[1:]).astype(np.float64)
        for v in (one.mean, one.variance, one.entropy)
    )
    with np.errstate(over="ignore", invalid="ignore"):  # `check_finite` refuses these
        return mean.mean(axis=0), variance.mean(axis=0), mean.var(axis=0), entropy.mean(axis=0)


def _exact(
    likelihood: Likelihood,
    mean: np.ndarray,
    covariance: np.ndarray,
    num_samples: int,
    outputs: np.ndarray | None,
) -> Prediction:
    """Normal noise on normal f."""
    assert isinstance(likelihood, Normal)
    noise = float(likelihood.scale) ** 2
    size = covariance.shape[-1]
    variance = np.diagonal(covariance, axis1=1, axis2=2).reshape(mean.shape)
    lower = np.linalg.cholesky(covariance + noise * np.eye(size))
    entropy = size * (HALF_LOG_2PI_E + 0.5 * np.log(noise))
    return ClosedFormPrediction(
        mean=_single(mean),
        aleatoric_variance=_single(np.full_like(mean, noise)),
        epistemic_variance=_single(variance),
        expected_entropy=_single(np.full(len(mean), entropy)),
        num_samples=num_samples,
        likelihood=likelihood,
        outputs=outputs,
        joint=tfp.distributions.MultivariateNormalTriL(mean.reshape(len(mean), -1), lower),
        marginal=tfp.distributions.Normal(tf.constant(mean), np.sqrt(variance + noise)),
    )


def _single(values: Any) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float32)
