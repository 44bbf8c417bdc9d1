"""The choice of prior precision and noise: by the evidence, or on validation data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import scipy.optimize
import tensorflow as tf

from tfbdl.arguments import positive, shown
from tfbdl.likelihoods import Bernoulli, Categorical, Joint
from tfbdl.likelihoods.joint import named
from tfbdl.likelihoods.positions import with_mask
from tfbdl.predictive import Prediction
from tfbdl.sources import Element

GRID = tuple(np.logspace(-4, 4, 21))
_BOUNDS = (-25.0, 25.0)


def maximum(
    function: Callable[..., tf.Tensor], starts: Sequence[tf.Tensor], max_iterations: int = 200
) -> list[tf.Tensor]:
    """Positive float64 tensors at which `function` is largest, searched for from `starts`.

    L-BFGS in the logarithms, which stay within -25 and 25.
    """
    sizes = [int(tf.size(start)) for start in starts]

    def tensors(logs: tf.Tensor) -> list[tf.Tensor]:
        parts = tf.split(tf.exp(logs), sizes)
        return [tf.reshape(part, start.shape) for part, start in zip(parts, starts, strict=True)]

    def loss(logs: np.ndarray) -> tuple[float, np.ndarray]:
        logs = tf.constant(logs)
        with tf.GradientTape() as tape:
            tape.watch(logs)
            value = -function(*tensors(logs))
        return float(value), tape.gradient(value, logs).numpy()

    optimum = scipy.optimize.minimize(
        loss,
        np.concatenate([np.log(start).ravel() for start in starts]),
        jac=True,
        method="L-BFGS-B",
        bounds=[_BOUNDS] * sum(sizes),
        options={"maxiter": max_iterations},
    )
    return tensors(tf.constant(optimum.x))


def checked_grid(grid: Any) -> Sequence[float]:
    """Prior precisions to try: positive numbers, at least one; by default `GRID`.

    Raises:
        ValueError: if they are not.
    """
    if grid is None:
        return GRID
    if not isinstance(grid, (list, tuple, np.ndarray)) or not len(grid):
        raise ValueError(f"grid={shown(grid)} must be a list of positive numbers")
    return [positive("grid", value, "a list of positive numbers") for value in grid]


def likeliest(
    grid: Sequence[float],
    predict: Callable[[float], Any],
    data: Element,
    joint: Joint | None,
) -> float:
    """The prior precision of `grid` under which the validation data are likeliest.

    Args:
        grid: prior precisions.
        predict: the function from one of them to its predictions at the validation inputs.
        data: the validation data.
        joint: the likelihoods of several outputs, with the weights of each; None of one output.
    """

    def score(predictions: Any) -> float:
        if joint is None:
            return _mean_log_prob(predictions, data.y, data.weights)
        columns = map(keras.tree.flatten, (joint.weights, predictions, data.y))
        return sum(
            weight * named(name, _mean_log_prob, prediction, y, data.weights)
            for name, weight, prediction, y in zip(joint.names, *columns, strict=True)
        )

    scores = [score(predict(delta)) for delta in grid]
    return grid[int(np.nanargmax(scores))]


def _mean_log_prob(prediction: Prediction, y: np.ndarray, weights: np.ndarray | None) -> float:
    """The mean log probability of y; for classes by the mean, which may not be that of samples."""
    likelihood = prediction.likelihood
    if isinstance(likelihood, (Categorical, Bernoulli)):
        of_mean = likelihood.from_config({**likelihood.get_config(), "from_logits": False})
        mean = with_mask(tf.constant(prediction.mean), prediction.mask)
        of_mean.check_targets(y, mean)
        return float(np.average(of_mean.log_prob(y, mean), weights=weights))
    return float(np.average(prediction.log_prob(y), weights=weights))
