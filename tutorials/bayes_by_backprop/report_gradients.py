"""Section 4 of the report: the gradients of its loss, derived by hand, and held against autodiff.

One sample of each weight is w = mu + sigma eps with sigma = log(1 + e^rho) and eps ~ N(0, 1)
(equations 1 to 4). With the constants dropped, log q(w) = -log sigma - eps^2 / 2 (10) and
log p(w) = -w^2 / 2 (13), and the loss of m examples is the mean over them of (18),

    F = 1/N sum_w [-log sigma - eps^2 / 2 + w^2 / 2] + 1/m sum_i (y_i - yhat_i)^2 / 2.

Backpropagation gives g, the derivative of the second term by w. With z_l = a_(l-1) W_l + b_l,
a_l = max(z_l, 0), yhat = z_n (31 to 36), and the examples as rows,

    delta_n     = -(y - yhat) / m                     (37)
    g of b_l    = the sum of delta_l over examples    (37, 39, 41)
    g of W_l    = a_(l-1)^T delta_l                   (38, 40, 42)
    delta_(l-1) = (delta_l W_l^T) * [z_(l-1) > 0]     (39 to 42)

where the report leaves out the transposes and the sums. The loss depends on mu through w alone, and
on rho through w and log sigma. From dw/dmu = 1 (20) and dsigma/drho = 1 / (1 + e^-rho) (24),

    dw/drho = eps / (1 + e^-rho)                                            (28)
    dF/dmu  = g + w / N                                                     (21)
    dF/drho = [(g + w / N) eps - 1 / (N sigma)] / (1 + e^-rho)              (30)

The density log q(w) also holds mu and rho beside w, but (w - mu) / sigma = eps is free of both.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import random

Arrays = list[np.ndarray]
"""W_0, b_0, W_1, b_1, ..., or something of each."""


def by_hand(
    mu: Arrays, rho: Arrays, eps: Arrays, x: np.ndarray, y: np.ndarray, *, num_data: int
) -> tuple[Arrays, Arrays]:
    """dF/dmu and dF/drho of all weights, for x (m, d_in) and y (m, d_out) in float64."""
    sigma = [np.log1p(np.exp(r)) for r in rho]
    w = [m + s * e for m, s, e in zip(mu, sigma, eps, strict=True)]
    by_w = [g + w_k / num_data for g, w_k in zip(backpropagate(w, x, y), w, strict=True)]
    slope = [1.0 / (1.0 + np.exp(-r)) for r in rho]
    by_rho = [
        (g * e - 1.0 / (num_data * s)) * d
        for g, e, s, d in zip(by_w, eps, sigma, slope, strict=True)
    ]
    return by_w, by_rho


def backpropagate(w: Arrays, x: np.ndarray, y: np.ndarray) -> Arrays:
    """The derivative of the mean of (y - yhat)^2 / 2 by W_0, b_0, W_1, b_1, ..."""
    kernels, biases = w[::2], w[1::2]
    a, z = [x], []
    for kernel, bias in zip(kernels, biases, strict=True):
        z.append(a[-1] @ kernel + bias)
        a.append(np.maximum(z[-1], 0.0))
    delta = -(y - z[-1]) / len(x)
    g: Arrays = []
    for layer in reversed(range(len(kernels))):
        g = [a[layer].T @ delta, delta.sum(axis=0), *g]
        if layer:
            delta = (delta @ kernels[layer].T) * (z[layer - 1] > 0)
    return g


def differences(model: keras.Model, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """How far autodiff lies from the gradients by hand, relative to the largest of each tensor.

    Args:
        model: a network of `BayesDense(..., prior=1.0, kl="sample", dtype="float64")`, ReLU but for
            the last, compiled with the likelihood `Normal(1.0)`.
        x: inputs, shape (m, d_in), float64.
        y: targets, shape (m, d_out), float64.
    """
    weights = [q for layer in model.layers for q in layer.random_weights]
    eps = [e for layer in model.layers for e in next_noise(layer)]
    mu, rho = [np.array(q.mu) for q in weights], [np.array(q.rho) for q in weights]
    expected = by_hand(mu, rho, eps, x, y, num_data=model.layers[0].num_data)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model.loss.call(y, model(x, training=True))) + sum(model.losses)
    by_autodiff = tape.gradient(
        loss, [[q.mu.value for q in weights], [q.rho.value for q in weights]]
    )
    return {
        f"layer {k // 2 + 1}, {name} of {'Wb'[k % 2]}": relative(
            by_autodiff[i][k].numpy(), expected[i][k]
        )
        for i, name in enumerate(("mu", "rho"))
        for k in range(len(weights))
    }


def next_noise(layer: Any) -> Arrays:
    """The eps of a layer's kernel and bias in its next training step."""
    key, step = layer.seed.state.numpy()
    key = random.fold_in(random.fold_in(key, step), 0)
    return [
        random.normal(random.fold_in(key, i), q.mu.shape, "float64").numpy()
        for i, q in enumerate(layer.random_weights)
    ]


def relative(by_autodiff: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(by_autodiff - expected).max() / np.abs(expected).max())
