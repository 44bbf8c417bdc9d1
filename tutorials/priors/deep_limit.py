r"""Deep wide networks: the Gaussian process of each depth, and how slowly it is reached.

    f = v . h_L,    h_l = relu(W_l h_{l-1}),    W_l ~ N(0, 2 / H_{l-1}),    v ~ N(0, 1 / H).

As all H_l grow, f tends to a Gaussian process whose kernel is that of one layer, applied L times
(Matthews et al. 2018; Lee et al. 2018). With 2 in the variance each layer keeps the squares:

    cos t_l = (sin t_{l-1} + (pi - t_{l-1}) cos t_{l-1}) / pi,    t_0 the angle between x and x'.

At any width f(x) is a normal whose variance is the product over layers of means of H squares, so
that its excess kurtosis is, exactly,

    3 ((1 + 5 / H)^L - 1):

what counts is the depth over the width, L / H. Under Cauchy weights each unit hears one or two
units of the layer before, at any width, so that a step of one of them is a step of f; with each
layer steps grow steeper.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import keras
import matplotlib.pyplot as plt
import numpy as np
import scipy.stats
from matplotlib.figure import Figure

from tfbdl.layers import BayesDense
from tfbdl.priors import Normal, Prior, StudentT
from tutorials.priors.drawn_functions import steepest_share
from tutorials.priors.limit import drawn

DEPTHS = (1, 2, 4)
WIDTHS = (5, 20, 100)
ANGLES = np.linspace(0, np.pi, 13)
CIRCLE = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1).astype("float32")
"""Inputs of length 1, whose kernel depends on the angle between them alone."""
LINE = np.linspace(-1, 1, 401, dtype="float32")[:, None]
NETWORKS = 4000
FUNCTIONS = 100
SHOWN_WIDTH = 200


def relu_network(depth: int, width: int, seed: int) -> keras.Model:
    """2-H-...-H-1 with L hidden layers, without biases."""
    common: dict[str, Any] = {"num_data": 1, "posterior": "prior", "use_bias": False}
    he = Normal("fan_in", sigma=2.0**0.5)
    hidden = [
        BayesDense(width, "relu", prior=he, seed=seed + layer, **common) for layer in range(depth)
    ]
    last = BayesDense(1, prior=Normal("fan_in"), seed=seed + depth, **common)
    return keras.Sequential([keras.Input((2,)), *hidden, last])


def kernel(depth: int, angle: np.ndarray) -> np.ndarray:
    """The limit's covariance of f at two inputs of length 1, at that angle; 1/2 at angle 0."""
    cosine = np.cos(angle)
    for _ in range(depth):
        angle = np.arccos(np.clip(cosine, -1, 1))
        cosine = (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi
    return 0.5 * cosine


def excess_kurtosis(depth: int, width: Any) -> Any:
    """The excess kurtosis of f(x), exactly."""
    return 3 * ((1 + 5 / width) ** depth - 1)


def moments(depth: int, width: int, seed: int) -> dict[str, Any]:
    """Covariances with f at angle 0, and the excess kurtosis there, over drawn networks."""
    f = drawn(relu_network(depth, width, seed), CIRCLE, NETWORKS, seed)[..., 0].astype(float)
    kurtosis = scipy.stats.kurtosis(f, fisher=True)
    return {
        "covariance": (f[:, :1] * f).mean(0).tolist(),
        "excess kurtosis": float(np.mean(kurtosis)),
        "exact": excess_kurtosis(depth, width),
    }


def step_network(family: str, depth: int, seed: int) -> keras.Model:
    """1-H-...-H-1 with tanh and N(0, 5^2) in the first layer, and this prior in all others."""
    prior: Prior = Normal("fan_in") if family == "normal" else StudentT(1.0, 1 / SHOWN_WIDTH)
    common: dict[str, Any] = {"num_data": 1, "posterior": "prior"}
    layers = [BayesDense(SHOWN_WIDTH, "tanh", prior=5.0, seed=seed, **common)]
    layers += [
        BayesDense(SHOWN_WIDTH, "tanh", prior=prior, bias_prior=0.1, seed=seed + layer, **common)
        for layer in range(1, depth)
    ]
    last = BayesDense(1, prior=prior, use_bias=False, seed=seed + depth, **common)
    return keras.Sequential([keras.Input((1,)), *layers, last])


def measure(args: argparse.Namespace, models: Mapping[str, keras.Model]) -> dict[str, Any]:
    rows: dict[str, dict[str, Any]] = {}
    for depth in DEPTHS:
        for width in WIDTHS:
            record = moments(depth, width, args.seed)
            off = np.array(record["covariance"]) - kernel(depth, ANGLES)
            rows[f"L = {depth}, H = {width}"] = {
                "excess kurtosis": record["excess kurtosis"],
                "exact": record["exact"],
                "covariance off by": float(np.abs(off).max()),
            }
        for family in ("normal", "Cauchy"):
            f = drawn(step_network(family, depth, args.seed), LINE, FUNCTIONS, args.seed)[..., 0]
            share = float(np.median(steepest_share(f)))
            rows[f"L = {depth}, {family}"] = {"variation in the steepest 1 %": share}
    return rows


def figures(
    args: argparse.Namespace, models: Mapping[str, keras.Model], rows: Mapping[str, dict[str, Any]]
) -> dict[str, Figure]:
    return {"deep_limit": limit(rows, args.seed), "deep_jumps": jumps(rows, args.seed)}


def limit(rows: Mapping[str, dict[str, Any]], seed: int) -> Figure:
    """Kernels of each depth beside drawn networks, and how far from normal f is."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    fine = np.linspace(0, np.pi, 200)
    for i, depth in enumerate(DEPTHS):
        left.plot(np.degrees(fine), kernel(depth, fine), f"C{i}", label=f"limit, L = {depth}")
        of_networks = moments(depth, WIDTHS[-1], seed)["covariance"]
        left.plot(np.degrees(ANGLES), of_networks, f"C{i}o", markersize=4)
        widths = np.geomspace(WIDTHS[0], WIDTHS[-1], 50)
        right.loglog(widths, excess_kurtosis(depth, widths), f"C{i}", label=f"exact, L = {depth}")
        kurtosis = [rows[f"L = {depth}, H = {h}"]["excess kurtosis"] for h in WIDTHS]
        right.loglog(WIDTHS, kurtosis, f"C{i}o", markersize=5)
    left.plot([], [], "ko", markersize=4, label=f"{NETWORKS:,} networks, H = {WIDTHS[-1]}")
    right.plot([], [], "ko", markersize=5, label=f"{NETWORKS:,} networks, too few for heavy tails")
    left.set(xlabel="angle between x and x' (degrees)", ylabel="covariance of f(x) and f(x')")
    left.set_title("the deeper, the more alike all inputs")
    right.set(xlabel="width H", ylabel="excess kurtosis of f(x)")
    right.set_title("the deeper, the further from a Gaussian process")
    for ax in (left, right):
        ax.legend(fontsize=8)
        ax.grid(alpha=0.3)
    return figure


def jumps(rows: Mapping[str, dict[str, Any]], seed: int) -> Figure:
    """Functions of each depth under normal and under Cauchy weights."""
    figure, axes = plt.subplots(
        2, len(DEPTHS), figsize=(12, 6), layout="constrained", sharex=True, squeeze=False
    )
    for row, family in zip(axes, ("normal", "Cauchy"), strict=True):
        for ax, depth in zip(row, DEPTHS, strict=True):
            f = drawn(step_network(family, depth, seed), LINE, 6, seed)[..., 0]
            f = (f - f.mean(1, keepdims=True)) / np.maximum(f.std(1, keepdims=True), 1e-12)
            ax.plot(LINE, f.T + 5 * np.arange(6), linewidth=1)
            share = rows[f"L = {depth}, {family}"]["variation in the steepest 1 %"]
            ax.set_title(
                f"{family}, L = {depth}: {100 * share:.0f} % of the way in 1 % of x", fontsize=10
            )
            ax.set(yticks=[], xticks=[-1, 0, 1])
        row[0].set_ylabel("f(x), standardised")
    for ax in axes[1]:
        ax.set_xlabel("x")
    figure.suptitle(f"six networks each, {SHOWN_WIDTH} units a layer: heavy tails make steps")
    return figure
