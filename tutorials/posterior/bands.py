"""What each method predicts, in one figure a problem, with the band of the chains in each."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from methods import Posterior, predicted
from problems import Problem

from tfbdl import plots
from tfbdl.metrics import total_variation
from tfbdl.predictive import Prediction

LEVEL = 0.9
LINE = np.linspace(-4.5, 4.5, 181, dtype="float32")[:, None]
AXIS = np.linspace(-2.5, 2.5, 61, dtype="float32")
PLANE = np.stack(np.meshgrid(AXIS, AXIS), axis=-1).reshape(-1, 2)
REFERENCE = "HMC"


def on_line(found: Mapping[str, Posterior], num_samples: int) -> dict[str, Prediction]:
    """Predictions of the regression."""
    return {
        name: predicted(posterior, LINE, num_samples, functions=True)
        for name, posterior in found.items()
    }


def on_plane(found: Mapping[str, Posterior], num_samples: int) -> dict[str, np.ndarray]:
    """P(y = 1) of the two classes, shape (n, n)."""
    return {
        name: predicted(posterior, PLANE, num_samples).mean.reshape(len(AXIS), -1)
        for name, posterior in found.items()
    }


def spreads(predictions: Mapping[str, Prediction]) -> dict[str, dict[str, float]]:
    """Mean standard deviation of functions, where there are data and in the gap between them."""
    at = np.abs(LINE[:, 0])
    among, gap = (at >= 1) & (at <= 3), at < 1
    return {
        name: {
            "sd of f at data": float(found.epistemic_stddev[among].mean()),
            "sd of f in the gap": float(found.epistemic_stddev[gap].mean()),
        }
        for name, found in predictions.items()
    }


def distances(surfaces: Mapping[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Mean total variation from the chains' P(y = 1) over the plane."""
    reference = surfaces[REFERENCE].ravel()
    return {
        name: {"total variation": total_variation(p.ravel(), reference)}
        for name, p in surfaces.items()
    }


def grid(count: int) -> tuple[plt.Figure, np.ndarray]:
    """A figure with four panels a row."""
    rows = -(-count // 4)
    figure, axes = plt.subplots(
        rows, 4, figsize=(14, 3.1 * rows), layout="constrained", sharex=True, sharey=True
    )
    for ax in axes.flat[count:]:
        ax.axis("off")
    return figure, axes


def regression(problem: Problem, predictions: Mapping[str, Prediction]) -> plt.Figure:
    """Bands of y and of functions; the dashed lines are the band of y of the chains."""
    figure, axes = grid(len(predictions))
    ends = predictions[REFERENCE].interval(LEVEL)
    for ax, (name, found) in zip(axes.flat, predictions.items(), strict=False):
        plots.predictive_bands(LINE, found, (problem.x, problem.y), LEVEL, ax)
        for end in ends:
            ax.plot(LINE, end, "k--", linewidth=0.8)
        ax.plot([], [], "k--", linewidth=0.8, label=f"{100 * LEVEL:g} % by {REFERENCE}")
        ax.set(title=name, ylim=(-4, 4))
        ax.label_outer()
    axes[0, 0].legend(fontsize=7, loc="lower left", ncols=2)
    return figure


def two_classes(problem: Problem, surfaces: Mapping[str, np.ndarray]) -> plt.Figure:
    """P(y = 1) over the plane; the lines are where the chains say 0.1, 0.5 and 0.9."""
    figure, axes = grid(len(surfaces))
    for ax, (name, p) in zip(axes.flat, surfaces.items(), strict=False):
        image = ax.pcolormesh(AXIS, AXIS, p, vmin=0, vmax=1, cmap="RdBu_r", shading="nearest")
        ax.contour(
            AXIS,
            AXIS,
            surfaces[REFERENCE],
            (0.1, 0.5, 0.9),
            colors="black",
            linewidths=0.8,
            linestyles=("dashed", "solid", "dashed"),
        )
        for label, marker in ((0, "o"), (1, "s")):
            chosen = problem.x[problem.y[:, 0] == label]
            ax.plot(*chosen.T, marker, color=("C0", "C3")[label], markeredgecolor="white", ms=4)
        ax.set(title=name, xlabel=r"$x_1$", ylabel=r"$x_2$")
        ax.label_outer()
    figure.colorbar(image, ax=axes, shrink=0.6, label=f"P(y = 1 | x); lines: {REFERENCE}")
    return figure
