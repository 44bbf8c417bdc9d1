"""The choice of prior precision and noise: by the evidence, or on validation data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.optimize
import tensorflow as tf

from tfbdl.inference.laplace.batches import elements
from tfbdl.likelihoods import Bernoulli, Categorical
from tfbdl.predictive import Prediction

if TYPE_CHECKING:
    from tfbdl.inference.laplace.laplace import Laplace

GRID = tuple(np.logspace(-4, 4, 21))
_BOUNDS = (-25.0, 25.0)


def maximise(
    posterior: Laplace, delta: tf.Tensor, with_noise: bool, max_iterations: int = 200
) -> None:
    """Sets the prior precision, and the noise, to where the evidence is largest, from `delta` on.

    L-BFGS in the logarithms, which stay within exp(-25) and exp(25).
    """
    shape, size = delta.shape, int(tf.size(delta))
    sigma = tf.constant(posterior.sigma_noise, tf.float64)

    def values(logs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        found = tf.exp(logs)
        return tf.reshape(found[:size], shape), found[size] if with_noise else sigma

    def loss(logs: np.ndarray) -> tuple[float, np.ndarray]:
        logs = tf.constant(logs)
        with tf.GradientTape() as tape:
            tape.watch(logs)
            value = -posterior.log_marginal_likelihood(*values(logs))
        return float(value), tape.gradient(value, logs).numpy()

    start = tf.math.log(tf.concat([tf.reshape(delta, [-1]), [sigma] * with_noise], axis=0))
    found = scipy.optimize.minimize(
        loss,
        start.numpy(),
        jac=True,
        method="L-BFGS-B",
        bounds=[_BOUNDS] * len(start),
        options={"maxiter": max_iterations},
    )
    best, noise = values(tf.constant(found.x))
    posterior.prior_precision = best
    if with_noise:
        posterior.sigma_noise = float(noise)


def search_grid(posterior: Laplace, grid: Sequence[float], x: Any, y: Any) -> None:
    """Sets the prior precision to the one of `grid` under which the validation data are likeliest.

    Raises:
        ValueError: if there are no validation data.
    """
    if x is None:
        raise ValueError("method='gridsearch' needs validation data; give x and y")
    targets = np.concatenate([targets for _, targets in elements(x, y)])
    scores = []
    for delta in grid:
        posterior.prior_precision = delta
        scores.append(_mean_log_prob(posterior.predict(x, return_samples=True), targets))
    posterior.prior_precision = grid[int(np.nanargmax(scores))]


def _mean_log_prob(prediction: Prediction, y: np.ndarray) -> float:
    """Of y; that of classes by the mean, which may not be that of samples."""
    classes = type(prediction.likelihood)
    if classes in (Categorical, Bernoulli):
        mean = tf.constant(prediction.mean)
        return float(np.mean(classes(from_logits=False).log_prob(y, mean)))
    return float(np.mean(prediction.log_prob(y)))
