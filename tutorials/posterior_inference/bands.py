"""What each method predicts, and how far that is from what Hamiltonian Monte Carlo predicts."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tfbdl.data import gapped_sine
from tfbdl.metrics import total_variation
from tutorials.posterior_inference.problems import Problem, two_moons
from tutorials.posterior_inference.running import Posterior, predicted

LEVEL = 0.9
LINE = np.linspace(-4.5, 4.5, 181, dtype="float32")[:, None]
AXIS = np.linspace(-2.5, 2.5, 61, dtype="float32")
PLANE = np.stack(np.meshgrid(AXIS, AXIS), axis=-1).reshape(-1, 2)
REFERENCE = "HMC"
NEW = 2000
"""Points that methods have not seen."""


def measure_regression(
    posteriors: Mapping[str, Posterior], num_samples: int, seed: int
) -> dict[str, dict[str, float]]:
    """Test log densities in nats a point; standard deviations of f at the data and between them."""
    x, y = gapped_sine(NEW, seed + 1)
    at = np.abs(LINE[:, 0])
    rows = {}
    for name, posterior in posteriors.items():
        spread = predicted(posterior, LINE, num_samples).epistemic_stddev
        density = predicted(posterior, x, num_samples, functions=True).log_prob(y)
        rows[name] = {
            "test log density": float(density.mean()),
            "sd of f at data": float(spread[(at >= 1) & (at <= 3)].mean()),
            "sd of f in the gap": float(spread[at < 1].mean()),
        }
    return rows


def measure_two_classes(
    posteriors: Mapping[str, Posterior], num_samples: int, seed: int
) -> dict[str, dict[str, float]]:
    """Test log probabilities in nats, accuracies, and the distance from the chains' P(y = 1)."""
    x, y = two_moons(NEW, seed + 1)
    reference = predicted(posteriors[REFERENCE], PLANE, num_samples).mean
    rows = {}
    for name, posterior in posteriors.items():
        p = predicted(posterior, x, num_samples).mean
        p = np.where(y == 1, p, 1 - p)
        surface = predicted(posterior, PLANE, num_samples).mean
        rows[name] = {
            "test log density": float(np.log(np.maximum(p, 1e-12)).mean()),
            "accuracy": float(np.mean(p > 0.5)),
            "total variation": total_variation(surface, reference),
        }
    return rows


def regression(problem: Problem, posteriors: Mapping[str, Posterior], num_samples: int) -> Figure:
    """The band of y, and the ends of that of functions; dashed, the band of y by the chains."""
    figure, axes = grid(len(posteriors))
    reference = predicted(posteriors[REFERENCE], LINE, num_samples, functions=True).interval(LEVEL)
    for ax, (name, posterior) in zip(axes.flat, posteriors.items(), strict=False):
        prediction = predicted(posterior, LINE, num_samples, functions=True)
        x, spread = LINE[:, 0], 2 * prediction.epistemic_stddev[:, 0]
        low, high = (end[:, 0] for end in prediction.interval(LEVEL))
        ax.fill_between(x, low, high, color="C0", alpha=0.25, label=f"{100 * LEVEL:g} % of y")
        for sign, label in ((-1, "mean ± 2 sd of f"), (1, "_")):
            ends = prediction.mean[:, 0] + sign * spread
            ax.plot(x, ends, color="C1", linewidth=0.9, label=label)
        ax.plot(x, prediction.mean[:, 0], color="C0", label="predictive mean")
        ax.plot(problem.x, problem.y, ".", color="C3", markersize=4, label="data")
        for end in reference:
            ax.plot(LINE, end, "k--", linewidth=0.8)
        ax.plot([], [], "k--", linewidth=0.8, label=f"{100 * LEVEL:g} % by {REFERENCE}")
        ax.set(title=name, xlabel="x", ylabel="y", ylim=(-2.6, 2.6))
        ax.label_outer()
    axes.flat[0].legend(fontsize=7, loc="lower left", ncols=2)
    return figure


def two_classes(problem: Problem, posteriors: Mapping[str, Posterior], num_samples: int) -> Figure:
    """P(y = 1) over the plane; the lines are where the chains say 0.1, 0.5 and 0.9."""
    figure, axes = grid(len(posteriors))
    shape = len(AXIS), len(AXIS)
    reference = predicted(posteriors[REFERENCE], PLANE, num_samples).mean.reshape(shape)
    for ax, (name, posterior) in zip(axes.flat, posteriors.items(), strict=False):
        p = predicted(posterior, PLANE, num_samples).mean.reshape(shape)
        image = ax.pcolormesh(AXIS, AXIS, p, vmin=0, vmax=1, cmap="RdBu_r", shading="nearest")
        lines = ("dashed", "solid", "dashed")
        ax.contour(
            AXIS, AXIS, reference, (0.1, 0.5, 0.9), colors="k", linewidths=0.8, linestyles=lines
        )
        for label, marker in ((0, "o"), (1, "s")):
            chosen = problem.x[problem.y[:, 0] == label]
            colour = ("C0", "C3")[label]
            ax.plot(
                *chosen.T, marker, color=colour, markeredgecolor="white", ms=4, label=f"y = {label}"
            )
        ax.set(title=name, xlabel=r"$x_1$", ylabel=r"$x_2$")
        ax.label_outer()
    axes.flat[0].legend(fontsize=7, loc="lower left")
    title = f"P(y = 1 | x); lines: 0.1, 0.5, 0.9 by {REFERENCE}"
    figure.colorbar(image, ax=axes, shrink=0.6, label=title)
    return figure


def grid(count: int) -> tuple[Figure, np.ndarray]:
    """A figure with four panels a row."""
    rows = -(-count // 4)
    figure, axes = plt.subplots(
        rows, 4, figsize=(14, 3.1 * rows), layout="constrained", sharex=True, sharey=True
    )
    for ax in axes.flat[count:]:
        ax.axis("off")
    return figure, axes
