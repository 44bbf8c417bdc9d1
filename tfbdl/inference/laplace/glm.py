"""Predictions of the linearised network (Immer, Korzepa, Bauer 2021): f(x) ~ N(f(x), J S J^T)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfbdl import random
from tfbdl.inference.closed_form import ClosedFormPrediction
from tfbdl.inference.laplace.links import mean_of_classes
from tfbdl.likelihoods import Bernoulli, Categorical, Likelihood, Normal
from tfbdl.likelihoods.base import HALF_LOG_2PI_E
from tfbdl.predictive import Prediction
from tfbdl.predictive.moments import Moments, of_many


def default_link(likelihood: Likelihood) -> str:
    """How p(y | x) comes of normal f where nobody says: exactly, or else by "probit" or "mc"."""
    if isinstance(likelihood, Normal) and likelihood.scale != "predicted":
        return "exact"
    return "probit" if isinstance(likelihood, (Categorical, Bernoulli)) else "mc"


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
        mean: of f, shape (N, ...) with F numbers each.
        covariance: of f at each x, shape (N, F, F).
        link_approx: "exact", "probit", "bridge" or "mc".
        num_samples: S, draws of f, from which all comes that `link_approx` does not give.
        seed: of the draws.
        return_samples: whether the prediction keeps them.
    """
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, np.newaxis]
    draw = partial(_draw, tf.constant(mean), tf.constant(root), seed)
    outputs = np.stack([_single(draw(s)) for s in range(num_samples)]) if return_samples else None
    if link_approx == "exact":
        return _exact(likelihood, mean, covariance, num_samples, outputs)
    moments = _moments(draw, num_samples, likelihood)
    drawn = Prediction(
        mean=_single(moments.mean),
        aleatoric_variance=_single(moments.variance),
        epistemic_variance=_single(moments.squares / num_samples),
        expected_entropy=_single(moments.entropy),
        num_samples=num_samples,
        likelihood=likelihood,
        outputs=outputs,
    )
    if link_approx == "mc":
        return drawn
    classes = mean_of_classes(likelihood, link_approx, mean, covariance)
    return replace(drawn, mean=_single(classes))


def _moments(draw: Any, num_samples: int, likelihood: Likelihood) -> Moments:
    @tf.function(autograph=False)
    def run() -> Moments:
        return of_many(draw, tf.constant(0), tf.constant(num_samples), likelihood)

    return run.get_concrete_function()()


def _draw(mean: tf.Tensor, root: tf.Tensor, seed: int, s: int | tf.Tensor) -> tf.Tensor:
    """Function values number s, of the shape of `mean`, independent between examples."""
    key = tf.stack([tf.constant(seed), tf.convert_to_tensor(s), tf.constant(0)])
    noise = random.normal(key, root.shape[:2], root.dtype)
    return tf.cast(mean + tf.reshape(tf.linalg.matvec(root, noise), mean.shape), tf.float32)


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
        joint=tfd.MultivariateNormalTriL(mean.reshape(len(mean), -1), lower),
        marginal=tfd.Normal(tf.constant(mean), np.sqrt(variance + noise)),
    )


def _single(values: Any) -> np.ndarray:
    return np.asarray(values, np.float32)
