"""Laplace's approximation in its four steps, for one weight, where the posterior can be drawn.

    w* = argmax log p(y, w | x),   H = -d^2 / dw^2 log p(y, w* | x),   p(w | y, x) ~ N(w*, 1 / H),
    p(y* | x*, D) ~ int p(y* | x*, w) N(w; w*, 1 / H) dw

for six points of two classes, P(y = 1 | x, w) = sigmoid(w x) and w ~ N(0, 2^2).
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import keras
import matplotlib.pyplot as plt
import numpy as np
import scipy.special
import scipy.stats
import tensorflow as tf
from matplotlib.figure import Figure

import tfbdl
from tfbdl.inference import MAP, Laplace, LogPosterior
from tfbdl.likelihoods import Bernoulli

X = np.array([[-2.0], [-1.3], [-0.5], [0.4], [1.1], [1.9]], "float32")
Y = np.array([[0], [0], [1], [0], [1], [1]], "float32")
SCALE = 2.0
"""The scale of the prior."""
GRID = np.linspace(-3, 9, 2401)
LINE = np.linspace(-6, 6, 121, dtype="float32")[:, None]


class Steps(NamedTuple):
    """What each step gives, and the posterior that it stands for, on `GRID` and `LINE`.

    mode: w*.
    stddev: H^-1/2.
    log_joint: log p(y, w | x) on the grid, in nats.
    density: p(w | y, x) on the grid.
    log_evidence: log p(y | x), by integration and by Laplace, in nats.
    at_mode, approximate, exact: P(y = 1) on the line.
    """

    mode: float
    stddev: float
    log_joint: np.ndarray
    density: np.ndarray
    log_evidence: tuple[float, float]
    at_mode: np.ndarray
    approximate: np.ndarray
    exact: np.ndarray


@functools.cache
def steps() -> Steps:
    """The four steps, and numerical integration beside them."""
    layer = keras.layers.Dense(1, use_bias=False)
    network = keras.Sequential([keras.Input((1,)), layer])
    target = LogPosterior(network, SCALE, X, Y, likelihood=Bernoulli())
    mode = MAP(target, initial="prior").fit()
    mode.assign(network)
    posterior = Laplace(
        network,
        Bernoulli(),
        subset_of_weights="all",
        hessian_structure="full",
        curvature="hessian",
        prior_precision=SCALE**-2,
        link_approx="mc",
    ).fit(X, Y)
    log_joint = target(tf.constant(GRID[:, None], tf.float32)).numpy().astype(float)
    weight = GRID[1] - GRID[0]
    log_evidence = scipy.special.logsumexp(log_joint) + np.log(weight)
    density = np.exp(log_joint - log_evidence)
    return Steps(
        mode=float(mode.theta[0]),
        stddev=posterior.function_moments(np.ones((1, 1), "float32"))[1].item() ** 0.5,
        log_joint=log_joint,
        density=density,
        log_evidence=(float(log_evidence), float(posterior.log_marginal_likelihood())),
        at_mode=scipy.special.expit(mode.theta[0] * LINE[:, 0]),
        approximate=tfbdl.predict(posterior, LINE, 5000, seed=0, verbose=0).mean[:, 0],
        exact=scipy.special.expit(LINE * GRID) @ density * weight,
    )


def measure() -> dict[str, float]:
    four = steps()
    weight = GRID[1] - GRID[0]
    mean = float(np.sum(GRID * four.density) * weight)
    second = float(np.sum(GRID**2 * four.density) * weight)
    return {
        "mode": four.mode,
        "H^-1/2": four.stddev,
        "posterior mean": mean,
        "posterior sd": (second - mean**2) ** 0.5,
        "log evidence": four.log_evidence[0],
        "log evidence, Laplace": four.log_evidence[1],
    }


def figure() -> Figure:
    """The lecture's picture, with the truth beside it."""
    four = steps()
    figure, grid = plt.subplots(2, 2, figsize=(10, 6.6), layout="constrained")
    axes = grid.ravel()
    top = four.log_joint.max()
    parabola = top - 0.5 * ((GRID - four.mode) / four.stddev) ** 2
    for ax in axes[:2]:
        ax.plot(GRID, four.log_joint, color="black", label="log p(y, w | x)")
        ax.plot(four.mode, top, "o", color="C3", label=f"w* = {four.mode:.2f}")
        ax.set(ylim=(top - 12, top + 1.5), ylabel="nats")
    axes[1].plot(GRID, parabola, color="C0", label=f"parabola, 1 / H = {four.stddev:.2f}$^2$")
    axes[2].plot(GRID, four.density, color="black", label="p(w | y, x)")
    normal = scipy.stats.norm.pdf(GRID, four.mode, four.stddev)
    axes[2].plot(GRID, normal, color="C0", label="N(w*, 1 / H)")
    axes[2].set_ylabel("density")
    for ax in axes[:3]:
        ax.set(xlabel="w", xlim=(-3, 9))
    axes[3].plot(LINE, four.exact, color="black", label="exact")
    axes[3].plot(LINE, four.approximate, color="C0", label="Laplace")
    axes[3].plot(LINE, four.at_mode, color="C3", linestyle="--", label="at the mode")
    axes[3].plot(X, Y, "k.", markersize=6, label="data")
    axes[3].set(xlabel="x", ylabel="P(y = 1 | x)")
    titles = ("find the mode", "curvature", "a Gaussian", "predict")
    for number, (ax, title) in enumerate(zip(axes, titles, strict=True), start=1):
        ax.set_title(f"{number}. {title}")
        ax.legend(fontsize=8)
    return figure
