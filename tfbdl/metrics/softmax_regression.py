"""Multinomial regression with a penalty: what calibrates the logits or probabilities of classes."""

from __future__ import annotations

import numpy as np
import scipy.optimize
import scipy.special

_GRADIENT = 1e-10
"""The length of the gradient, of a mean in nats, at which the search ends."""


def fit(
    x: np.ndarray,
    y: np.ndarray,
    *,
    diagonal: bool,
    weight_penalty: float = 0.0,
    bias_penalty: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """The minimum of the mean of -log softmax(x W + b)_y, and penalties.

    It is convex. Newton's steps in regions of trust find it, from W = 0 and b = 0, where no
    probability is near 0 or 1.

    Args:
        x: shape (N, C).
        y: labels, shape (N,).
        diagonal: whether W is diagonal.
        weight_penalty: the factor of the sum of squares of W outside of its diagonal.
        bias_penalty: the factor of the sum of squares of b.

    Returns:
        W, shape (C, C), or its diagonal, shape (C,); and b, shape (C,).
    """
    N, C = x.shape
    unit = np.abs(x).max() or 1.0
    x = x / unit  # so that weights and biases have one scale
    penalty = np.zeros(C) if diagonal else weight_penalty * (1.0 - np.eye(C)) / unit**2
    penalties = np.concatenate([penalty.ravel(), np.full(C, bias_penalty)])
    chosen = np.arange(N), y

    def logits(theta: np.ndarray) -> np.ndarray:
        weights, bias = theta[:-C], theta[-C:]
        return (x * weights if diagonal else x @ weights.reshape(C, C)) + bias

    def back(of_logits: np.ndarray) -> np.ndarray:
        weights = (x * of_logits).sum(axis=0) if diagonal else (x.T @ of_logits).ravel()
        return np.concatenate([weights, of_logits.sum(axis=0)]) / N

    def loss(theta: np.ndarray) -> float:
        log_p = scipy.special.log_softmax(logits(theta), axis=1)
        return float(penalties @ theta**2 - log_p[chosen].mean())

    def gradient(theta: np.ndarray) -> np.ndarray:
        p = scipy.special.softmax(logits(theta), axis=1)
        p[chosen] -= 1.0
        return back(p) + 2.0 * penalties * theta

    def hessian_times(theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        p, moved = scipy.special.softmax(logits(theta), axis=1), logits(v)
        moved = p * (moved - (p * moved).sum(axis=1, keepdims=True))
        return back(moved) + 2.0 * penalties * v

    theta = scipy.optimize.minimize(
        loss,
        np.zeros(penalties.size),
        jac=gradient,
        hessp=hessian_times,
        method="trust-ncg",
        options={"gtol": _GRADIENT, "max_trust_radius": 1e8, "maxiter": 1000},
    ).x
    weights = theta[:-C] / unit
    return weights if diagonal else weights.reshape(C, C), theta[-C:]
