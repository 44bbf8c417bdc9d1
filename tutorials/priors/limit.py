r"""Wide networks with one hidden layer: the Gaussian process they tend to, or the jump process.

    f(x) = sum_j v_j h_j(x),    h_j(x) = phi(w_j x + b_j),    w_j, b_j ~ N(0, s^2).

Under v_j ~ N(0, 1 / H) the covariance of f(x) and f(x') over all networks is, at every width H,

    k(x, x') = E[phi(a . (x, 1)) phi(a . (x', 1))],    a ~ N(0, s^2 I),

the arc-cosine kernel of ReLUs (Cho, Saul 2009) and the arcsine kernel of erf (Williams 1997). What
tends to nothing is how far networks are apart. A network whose hidden units are known is a Gaussian
process in v with the kernel k_H = 1/H sum_j h_j h_j^T, whose root mean square distance from k falls
exactly as H^-1/2; and f(x) over all networks is normal but for an excess kurtosis of

    3 (E[h^4] / E[h^2]^2 - 1) / H = 15 / H for ReLUs.

Units then are "all negligible" (Neal 1995). Under Cauchy v_j of scale 1 / H, f(x) has a law that
does not depend on H, but it is the work of few units: the largest has a share of sum_j (v_j h_j)^2
that tends to 0.63, the mean of the largest weight of a Poisson-Dirichlet law of index 1/2 (Pitman,
Yor 1997). Where that unit changes its sign, f jumps.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import matplotlib.pyplot as plt
import numpy as np
import scipy.integrate
import scipy.stats
import tensorflow as tf
from matplotlib.figure import Figure

import tfbdl
from tfbdl import random
from tfbdl.layers import BayesDense
from tfbdl.priors import Normal, Prior, StudentT

WIDTHS = (1, 10, 100, 1000, 10_000)
SCALE = 100.0
"""s: so large that units are steps, in places all along the line."""
LINE = np.linspace(-1, 1, 501, dtype="float32")[:, None]
POINTS = np.linspace(-1, 1, 21, dtype="float32")[:, None]
NETWORKS = 200
"""Networks of each width, for what differs from one network to the next."""
FUNCTIONS = 20_000
"""Functions of each width, for the law of f(x)."""

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"relu": tf.nn.relu, "erf": tf.math.erf}
OUTPUT: dict[str, Callable[[int], Prior]] = {
    "normal": lambda h: Normal("fan_in"),
    "Cauchy": lambda h: StudentT(1.0, 1 / h),
}


def hidden_layer(activation: str, width: int, seed: int) -> BayesDense:
    phi = ACTIVATIONS[activation]
    return BayesDense(width, phi, num_data=1, prior=SCALE, posterior="prior", seed=seed)


def network(activation: str, width: int, family: str, seed: int) -> keras.Model:
    """1-H-1 with weights drawn from their priors."""
    prior = OUTPUT[family](width)
    last = BayesDense(1, num_data=1, prior=prior, posterior="prior", use_bias=False, seed=seed + 1)
    return keras.Sequential([keras.Input((1,)), hidden_layer(activation, width, seed), last])


def drawn(model: keras.Model, x: np.ndarray, num_samples: int, seed: int) -> np.ndarray:
    """Outputs of drawn networks, shape (S, n, units)."""
    return tfbdl.predict(model, x, num_samples, seed=seed, return_samples=True, verbose=0).samples


def kernel(activation: str, x: np.ndarray) -> np.ndarray:
    """The kernel k of n points, shape (n, n)."""
    a = SCALE * np.stack([np.ravel(x), np.ones(len(x))], axis=1).astype(float)
    products = a @ a.T
    squares = np.diagonal(products)
    if activation == "erf":
        roots = np.sqrt(np.outer(1 + 2 * squares, 1 + 2 * squares))
        return 2 / np.pi * np.arcsin(2 * products / roots)
    norms = np.sqrt(np.outer(squares, squares))
    cosine = np.clip(products / norms, -1, 1)
    angle = np.arccos(cosine)
    return norms * (np.sin(angle) + (np.pi - angle) * cosine) / (2 * np.pi)


def kernel_distance(activation: str, width: int, seed: int) -> float:
    """|k_H - k| / |k|, Frobenius norms on `POINTS`: the root mean square over networks."""
    layer = hidden_layer(activation, width, seed)
    h = drawn(keras.Sequential([keras.Input((1,)), layer]), POINTS, NETWORKS, seed).astype(float)
    k = kernel(activation, POINTS)
    squares = np.sum(np.square(h @ np.swapaxes(h, 1, 2) / width - k), axis=(1, 2))
    return math.sqrt(float(np.mean(squares))) / float(np.linalg.norm(k))


def excess_kurtosis(activation: str, width: int, seed: int) -> float:
    """The excess kurtosis of f(1) over drawn networks.

    Its standard error is near sqrt(24 / S) where f is normal.
    """
    f = drawn(network(activation, width, "normal", seed), LINE[-1:], FUNCTIONS, seed)
    return float(scipy.stats.kurtosis(np.ravel(f)))


def largest_shares(width: int, seed: int) -> dict[str, float]:
    """The mean over networks of max_j (v_j h_j)^2 / sum_j (v_j h_j)^2 at x = 1, of erf units."""
    layer = hidden_layer("erf", width, seed)
    h = drawn(keras.Sequential([keras.Input((1,)), layer]), LINE[-1:], NETWORKS, seed)[:, 0]
    shares = {}
    for family, prior in OUTPUT.items():
        v = prior(width).sample(random.key_of(seed, "limit"), (width, NETWORKS))
        squares = np.square(h.astype(float) * np.transpose(v))
        shares[family] = float(np.mean(squares.max(-1) / squares.sum(-1)))
    return shares


def limiting_share(index: float = 0.5) -> float:
    """E[V] of the largest weight V of a Poisson-Dirichlet law.

    E[exp(-t / V)] = exp(-t) / (1 + index int_0^1 (1 - exp(-t z)) z^(-index - 1) dz) (Pitman, Yor
    1997, proposition 17), and E[V] is its integral over t.
    """

    def transform(t: float) -> float:
        inner = scipy.integrate.quad(lambda z: -math.expm1(-t * z) * z ** (-index - 1), 0, 1)[0]
        return math.exp(-t) / (1 + index * inner)

    return scipy.integrate.quad(transform, 0, 60)[0]


def slope(widths: Sequence[int], values: Sequence[float]) -> float:
    """The slope of log values against log widths, by least squares."""
    return float(np.polyfit(np.log(widths), np.log(values), 1)[0])


def at_width(width: int, seed: int) -> dict[str, float]:
    distances = {name: kernel_distance(name, width, seed) for name in ACTIVATIONS}
    shares = largest_shares(width, seed)
    return {
        **{f"kernel distance, {name}": distance for name, distance in distances.items()},
        "excess kurtosis, relu": excess_kurtosis("relu", width, seed),
        **{f"largest share, {name}": share for name, share in shares.items()},
    }


def measure(args: argparse.Namespace, models: Mapping[str, keras.Model]) -> dict[str, Any]:
    rows: dict[str, dict[str, Any]] = {f"H = {h}": at_width(h, args.seed) for h in WIDTHS}
    columns = [f"kernel distance, {name}" for name in ACTIVATIONS]
    rows["slope"] = {c: slope(WIDTHS, [rows[f"H = {h}"][c] for h in WIDTHS]) for c in columns}
    rows["limit"] = {"largest share, Cauchy": limiting_share()}
    return rows


def figures(
    args: argparse.Namespace, models: Mapping[str, keras.Model], rows: Mapping[str, dict[str, Any]]
) -> dict[str, Figure]:
    return {"limit_functions": functions(args.seed), "limit": curves(rows)}


def functions(seed: int) -> Figure:
    """Functions of four widths: above those that tend to a Gaussian process, below the others."""
    widths = [h for h in WIDTHS if h != 1000]
    figure, axes = plt.subplots(
        2, len(widths), figsize=(13, 6), layout="constrained", sharex=True, squeeze=False
    )
    for row, family in zip(axes, OUTPUT, strict=True):
        for ax, h in zip(row, widths, strict=True):
            f = drawn(network("erf", h, family, seed), LINE, 6, seed)[..., 0]
            low, size = f.min(1, keepdims=True), np.ptp(f, axis=1, keepdims=True)
            scaled = (f - low) / np.where(size > 1e-4 * np.abs(low), size, 1.0)
            ax.plot(LINE, scaled.T + 1.2 * np.arange(len(f)), linewidth=1)
            ax.set(title=f"H = {h:,}, {family} output weights", yticks=[])
        row[0].set_ylabel("f(x), each in its own range")
    for ax in axes[1]:
        ax.set_xlabel("x")
    figure.suptitle("six networks each: a Gaussian process above, jumps of single units below")
    return figure


def curves(rows: Mapping[str, dict[str, Any]]) -> Figure:
    """What wide networks lose, and what they keep under heavy tails."""
    names = [name for name in rows if name.startswith("H = ")]
    widths = np.array([int(name.removeprefix("H = ")) for name in names])
    values = {column: np.array([rows[n][column] for n in names]) for column in rows[names[0]]}
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for activation, marker in (("relu", "o"), ("erf", "s")):
        column = f"kernel distance, {activation}"
        label = f"{activation}: slope {rows['slope'][column]:.3f}"
        axes[0].loglog(widths, values[column], marker, label=label)
        axes[0].loglog(widths, values[column][0] * widths**-0.5, color="0.6", linewidth=1, zorder=0)
    axes[0].plot([], [], color="0.6", linewidth=1, label=r"$H^{-1/2}$")
    axes[0].set(title="one network's kernel", ylabel=r"$\|k_H - k\| \; / \; \|k\|$")
    noise = 2 * math.sqrt(24 / FUNCTIONS)
    axes[1].loglog(widths, np.abs(values["excess kurtosis, relu"]), "o", label="drawn networks")
    axes[1].loglog(widths, 15 / widths, color="0.6", linewidth=1, zorder=0, label="15 / H")
    axes[1].axhspan(1e-4, noise, color="0.9", zorder=0, label="within 2 standard errors of 0")
    axes[1].set(title="the law of f(1)", ylabel="|excess kurtosis|", ylim=(1e-3, 60))
    for family, marker in (("Cauchy", "o"), ("normal", "s")):
        axes[2].semilogx(widths, values[f"largest share, {family}"], marker, label=family)
    limit = rows["limit"]["largest share, Cauchy"]
    axes[2].axhline(limit, color="0.6", linewidth=1, label=f"limit {limit:.3f}")
    axes[2].set(title="the largest unit", ylim=(0, 1.05))
    axes[2].set_ylabel(r"its share of $\sum_j (v_j h_j)^2$")
    for ax in axes:
        ax.set_xlabel("width H")
        ax.legend(fontsize=8)
    return figure
