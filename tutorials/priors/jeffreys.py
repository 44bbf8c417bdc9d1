r"""Jeffreys' prior of a network: uniform over what can be told apart, not over numbers.

Lee (2004, "Priors for neural networks") takes p(w) proportional to the root of the determinant of
the Fisher information. For y ~ N(f(x; w), 1) at inputs x_1..x_N that is

    p(w) ∝ |J(w)^T J(w)|^(1/2),    J_nd = df(x_n; w) / dw_d,

the volume that dw takes up in the space of predictions (f(x_1), ..., f(x_N)): the same law of
functions comes out in whatever coordinates the weights are written. It is 0 where weights have no
effect (v = 0) or cannot be told apart (two equal units), and it is improper: the larger v is, the
more volume dw takes up. Lee keeps it to a region of the weights.
Here one tanh unit, f(x) = v tanh(w x), on |w| <= 10, |v| <= 3.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import keras
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

X = np.linspace(-1, 1, 9)
W, V = np.linspace(-10, 10, 401), np.linspace(-3, 3, 241)
LINE = np.linspace(-1, 1, 201)
SHOWN = 40


def jacobian(w: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Derivatives of f by (w, v) at `X`, shape (..., N, 2)."""
    w, v = w[..., None], v[..., None]
    tanh = np.tanh(w * X)
    return np.stack([v * X * (1 - tanh**2), tanh], axis=-1)


def volume(j: np.ndarray) -> np.ndarray:
    """The root of |J^T J|, shape (...,)."""
    return np.sqrt(np.maximum(np.linalg.det(np.swapaxes(j, -1, -2) @ j), 0.0))


def jeffreys(w: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The density of (w, v), unnormalised."""
    return volume(jacobian(w, v))


def jeffreys_of_log(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The density of (u, v) for w = exp(u), by its own Jacobian."""
    w = np.exp(u)
    j = jacobian(w, v)
    return volume(np.concatenate([j[..., :1] * w[..., None, None], j[..., 1:]], axis=-1))


def grid() -> tuple[np.ndarray, np.ndarray]:
    w, v = np.meshgrid(W, V, indexing="ij")
    return w, v


def laws() -> dict[str, np.ndarray]:
    """Probabilities of the cells of the grid under three priors."""
    w, v = grid()
    densities = {
        "Jeffreys": jeffreys(w, v),
        "normal, w ~ N(0, 3²), v ~ N(0, 1)": np.exp(-0.5 * (w**2 / 9 + v**2)),
        "flat": np.ones_like(w),
    }
    return {name: density / density.sum() for name, density in densities.items()}


def drawn(p: np.ndarray, number: int, seed: int) -> np.ndarray:
    """Functions on `LINE` of cells drawn by their probabilities, shape (number, n)."""
    cells = np.random.default_rng(seed).choice(p.size, number, p=p.ravel())
    i, j = np.unravel_index(cells, p.shape)
    return V[j][:, None] * np.tanh(W[i][:, None] * LINE)


def measure(args: argparse.Namespace, models: Mapping[str, keras.Model]) -> dict[str, Any]:
    """The mass near what has no effect; how far coordinates change the law; growth of the whole."""
    rows = {}
    w, v = grid()
    for name, p in laws().items():
        small, steep = np.abs(v) < 0.3, np.abs(w) > 5
        rows[name] = {
            "mass of |v| < 0.3": float(p[small].sum()),
            "mass of |w| > 5": float(p[steep].sum()),
        }
    u, v_ = np.meshgrid(np.linspace(-1, 2, 31), np.linspace(0.1, 3, 30), indexing="ij")
    ratio = jeffreys_of_log(u, v_) / (jeffreys(np.exp(u), v_) * np.exp(u))
    rows["in coordinates log w"] = {"ratio of densities off 1 by": float(np.abs(ratio - 1).max())}
    wide = [jeffreys(np.linspace(0, b, 2001), np.ones(2001)).mean() * b for b in (5.0, 50.0)]
    rows["mass up to |w| = 50 over 5, v = 1"] = {"ratio": float(wide[1] / wide[0])}
    wide_v = [jeffreys(np.full(2001, 2.0), np.linspace(0, b, 2001)).mean() * b for b in (3.0, 30.0)]
    rows["mass up to |v| = 30 over 3, w = 2"] = {"ratio": float(wide_v[1] / wide_v[0])}
    return rows


def figures(
    args: argparse.Namespace, models: Mapping[str, keras.Model], rows: Mapping[str, dict[str, Any]]
) -> dict[str, Figure]:
    figure, axes = plt.subplots(2, 3, figsize=(12, 6.6), layout="constrained")
    for column, (name, p) in zip(axes.T, laws().items(), strict=True):
        image = column[0].pcolormesh(W, V, p.T / p.max(), shading="nearest", vmin=0, vmax=1)
        column[0].set(title=name, xlabel="w")
        column[1].plot(LINE, drawn(p, SHOWN, args.seed).T, color="C0", linewidth=0.7, alpha=0.6)
        column[1].set(xlabel="x", ylim=(-3.1, 3.1))
    axes[0, 0].set_ylabel("v")
    axes[1, 0].set_ylabel(f"{SHOWN} functions v tanh(w x)")
    figure.colorbar(image, ax=axes[0, 2], label="density / its largest")
    figure.suptitle(
        "one tanh unit: Jeffreys' prior avoids v = 0, where w has no effect, "
        "and large |w|, where tanh is a step already"
    )
    return {"jeffreys": figure}
