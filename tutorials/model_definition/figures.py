"""The figures of `model_definition`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import keras
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import tfbdl
from tfbdl import plots
from tfbdl.inference import MCMC
from tfbdl.layers import BayesDense
from tutorials.model_definition import posterior_predictive as hmc

Data = tuple[np.ndarray, np.ndarray]

LINE = np.linspace(-5, 5, 201, dtype="float32")[:, None]
WIDEST = 1.5
"""Standard deviation of the widest bell that is drawn."""
SHOWN = 20
"""Each so many-th point of the regression is drawn."""
CLASS_COLOURS = np.array([[0.12, 0.47, 0.71], [1.0, 0.5, 0.05], [0.17, 0.63, 0.17]])


def side_by_side(
    traditional: keras.Model, bayesian: keras.Model, data: Data, num_samples: int
) -> Figure:
    """Weights as numbers and one function; weights as distributions and many functions."""
    figure, axes = plt.subplots(
        2, 2, figsize=(11, 8), layout="constrained", height_ratios=(1.2, 1.0)
    )
    numbers = [layer.get_weights()[0] for layer in traditional.layers]
    draw_network(axes[0, 0], [np.stack([w, np.zeros_like(w)], -1) for w in numbers])
    laws = [layer.kernel for layer in bayesian.layers]
    draw_network(axes[0, 1], [np.stack([q.mean, q.stddev], -1) for q in laws])
    axes[0, 0].set_title("traditional: a number for each weight")
    axes[0, 1].set_title("Bayesian: a distribution over each weight")
    axes[1, 0].plot(LINE, traditional.predict(LINE, verbose=0), color="C0", label="f(x; w)")
    axes[1, 0].plot(*data, ".", color="C3", markersize=5, label="data")
    drawn = tfbdl.predict(bayesian, LINE, num_samples, seed=0, return_samples=True)
    plots.function_draws(LINE, drawn.samples, data, axes[1, 1])
    axes[1, 0].set_title("one function")
    axes[1, 1].set_title("a distribution over functions")
    for ax in axes[1]:
        ax.set(xlabel="x", ylabel="y", ylim=(-3.5, 2.5))
        ax.legend(fontsize=8, loc="lower left")
    return figure


def draw_network(ax: Axes, kernels: list[np.ndarray]) -> None:
    """Units as circles; on each edge its weight.

    Args:
        ax: where to draw.
        kernels: the kernel of each layer, shape (inputs, outputs, 2): mean and standard deviation.
    """
    sizes = [len(kernels[0]), *(kernel.shape[1] for kernel in kernels)]
    heights = [np.arange(n) - (n - 1) / 2 for n in sizes]
    for layer, kernel in enumerate(kernels):
        along = 0.72 if layer == 0 else 0.28
        for i, start in enumerate(heights[layer]):
            for j, end in enumerate(heights[layer + 1]):
                ax.plot([layer, layer + 1], [start, end], color="0.75", linewidth=1, zorder=0)
                draw_weight(ax, layer + along, start + along * (end - start), *kernel[i, j])
    for layer, ys in enumerate(heights):
        ax.scatter(np.full(len(ys), layer), ys, s=450, color="white", edgecolor="black", zorder=3)
    for layer, name in ((0, "x"), (len(sizes) - 1, "f(x)")):
        ax.text(layer, 0, name, ha="center", va="center", fontsize=9, zorder=4)
    ax.set(xlim=(-0.15, len(sizes) - 0.85), ylim=(heights[1][0] - 0.6, heights[1][-1] + 0.6))
    ax.axis("off")


def draw_weight(ax: Axes, x: float, y: float, mean: float, stddev: float) -> None:
    """A number; or a bell of one area, as wide as the root of its deviation, and both numbers."""
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    if stddev == 0:
        ax.text(x, y, f"{mean:.2f}", ha="center", va="center", fontsize=9, bbox=box, zorder=1)
        return
    z = np.linspace(-3, 3, 61)
    width = 0.006 + 0.06 * min(stddev / WIDEST, 1.0) ** 0.5
    bell = y + 0.0055 / width * np.exp(-0.5 * z**2)
    ax.fill_between(x + width * z, y, bell, color="C0", alpha=0.6, zorder=2, linewidth=0)
    text = f"{mean:.2f} ± {stddev:.2f}"
    ax.text(x, y, text, ha="center", va="top", fontsize=8, bbox=box, zorder=1)


def regression(
    model: keras.Model,
    data: Data,
    noise_stddev: Callable[[np.ndarray], np.ndarray],
    num_samples: int,
) -> Figure:
    """A normal likelihood: the predictive distribution, and the two parts of its spread."""
    prediction = tfbdl.predict(model, LINE, num_samples, seed=0)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    x, y = data[0][::SHOWN], data[1][::SHOWN]
    plots.predictive_bands(LINE, prediction, (x, y), 0.9, left)
    left.set(title=f"predictive distribution, and {len(x)} of the points", ylim=(-4, 4))
    left.legend(fontsize=8, loc="upper left")
    right.plot(LINE, prediction.aleatoric_stddev, color="C1", label="aleatoric: noise in y")
    right.plot(LINE, prediction.epistemic_stddev, color="C0", label="epistemic: functions differ")
    among = LINE[np.abs(LINE) <= 3]
    right.plot(among, noise_stddev(among), "k--", linewidth=1, label="noise of the data")
    right.set(title="its parts", xlabel="x", ylabel="standard deviation of y", yscale="log")
    right.legend(fontsize=8)
    return figure


def classification(model: keras.Model, data: Data, num_samples: int) -> Figure:
    """A categorical likelihood: class probabilities over the plane, and their uncertainty."""
    axis = np.linspace(-6, 6, 121, dtype="float32")
    plane = np.stack(np.meshgrid(axis, axis), axis=-1)
    prediction = tfbdl.predict(model, plane.reshape(-1, 2), num_samples, seed=0)
    surfaces = {
        "class probabilities": (prediction.mean @ CLASS_COLOURS).reshape(*plane.shape[:2], 3),
        "aleatoric: mean entropy": prediction.expected_entropy,
        "epistemic: mutual information": prediction.mutual_information,
    }
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained", sharey=True)
    extent = (axis[0], axis[-1], axis[0], axis[-1])
    x, y = data
    for ax, (title, values) in zip(axes, surfaces.items(), strict=True):
        shape = plane.shape[:2] if values.ndim == 1 else values.shape
        image = ax.imshow(
            values.reshape(shape), origin="lower", extent=extent, vmin=0, vmax=math.log(3)
        )
        for label, colour in enumerate(CLASS_COLOURS):
            chosen = x[y == label]
            ax.plot(
                *chosen.T,
                "o",
                color=colour,
                markeredgecolor="white",
                markersize=3.5,
                markeredgewidth=0.4,
                label=f"class {label}",
            )
        ax.set(title=title, xlabel=r"$x_1$")
    figure.colorbar(image, ax=axes[2], shrink=0.9, label="nats, of log 3 = 1.10 at most")
    axes[0].set_ylabel(r"$x_2$")
    axes[0].legend(fontsize=7, loc="lower left")
    return figure


def prior_functions(seed: int) -> Figure:
    """Functions drawn from the prior alone, through `posterior="prior"`."""
    priors: dict[str, float | tfbdl.priors.Prior] = {
        "N(0, 1)": 1.0,
        "N(0, 5)": math.sqrt(5.0),
        "N(0, 5 / H)": tfbdl.priors.Normal("fan_in", sigma=math.sqrt(5.0)),
    }
    figure, axes = plt.subplots(2, 3, figsize=(12, 6), layout="constrained", sharex=True)
    for row, activation in zip(axes, ("tanh", "relu"), strict=True):
        for ax, (name, prior) in zip(row, priors.items(), strict=True):
            model = prior_network((50, 50, 1), activation, prior, seed)
            drawn = tfbdl.predict(model, LINE, 10, seed=seed, return_samples=True).samples
            ax.plot(LINE, drawn[..., 0].T, linewidth=1)
            ax.set_title(f"{activation}, w ~ {name}")
        row[0].set_ylabel("f(x)")
    for ax in axes[-1]:
        ax.set_xlabel("x")
    figure.suptitle(
        "ten functions of 1-50-50-1 networks, drawn from the prior; a unit has H inputs"
    )
    return figure


def prior_network(
    units: Sequence[int], activation: str, prior: float | tfbdl.priors.Prior, seed: int
) -> keras.Model:
    """A network on one input whose weights are drawn from their prior."""
    activations = [activation] * (len(units) - 1) + [None]
    layers = [
        BayesDense(n, act, num_data=1, prior=prior, posterior="prior", seed=seed + i)
        for i, (n, act) in enumerate(zip(units, activations, strict=True))
    ]
    return keras.Sequential([keras.Input((1,)), *layers])


def posterior_predictive(chains: MCMC, data: Data, seed: int) -> Figure:
    """The lecture's example: functions of the prior, and the predictive distribution after data."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    before = prior_network((hmc.UNITS, hmc.UNITS, 1), "tanh", hmc.SIGMA, seed)
    drawn = tfbdl.predict(before, LINE, 20, seed=seed, return_samples=True).samples
    left.plot(LINE, drawn[..., 0].T, color="black", linewidth=0.5, alpha=0.6)
    left.set(title=r"before data: w ~ N(0, 5), 20 functions", xlabel="x", ylabel="f(x)")
    after = tfbdl.predict(chains, LINE, 1000, seed=seed, return_samples=True)
    for level, alpha, label in ((0.9, 0.2, "90 % of y"), (0.5, 0.4, "half of y")):
        low, high = (end[:, 0] for end in after.interval(level))
        right.fill_between(LINE[:, 0], low, high, color="C0", alpha=alpha, linewidth=0, label=label)
    last = chains.outputs(LINE)[-1, ..., 0]
    right.plot(LINE, last.T, color="black", linewidth=0.5, alpha=0.6)
    right.plot([], [], color="black", linewidth=0.5, label="the chains' last functions")
    right.plot(LINE, after.mean, color="C0", label="predictive mean")
    right.plot(*data, ".", color="C3", markersize=5, label="data")
    right.set(title="after data: the posterior predictive", xlabel="x", ylabel="y", ylim=(-6, 6))
    right.legend(fontsize=8, loc="upper left")
    return figure
