"""The figures: a panel for a data set or an evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLUMNS = 4


class Point(NamedTuple):
    """A network, its evidence and the log probability of the test data, in nats per example."""

    width: int
    depth: int
    evidence: float
    test_log_prob: float


def networks(panels: Mapping[str, Sequence[Point]]) -> Figure:
    """Test log probability against evidence, by title."""
    figure, axes = _panels(len(panels))
    for ax, (title, points) in zip(axes, panels.items(), strict=True):
        for depth in sorted({point.depth for point in points}):
            own = [point for point in points if point.depth == depth]
            widths, _, evidence, scores = zip(*own, strict=True)
            sizes = 30.0 + 60.0 * np.log10(widths)
            ax.scatter(evidence, scores, sizes, alpha=0.6, label=f"depth {depth}")
            for width, _, x, y in own:
                ax.text(x, y, str(width), fontsize=7, ha="center", va="center")
        ax.set_title(title, fontsize=10)
        ax.set_xlabel("log evidence (nats per training example)")
    for ax in axes[::COLUMNS]:
        ax.set_ylabel("test log probability (nats per example)")
    axes[0].legend(fontsize=8, title="numbers: width")
    return figure


def precisions(
    deltas: Sequence[float], panels: Mapping[str, Mapping[str, Sequence[float]]]
) -> Figure:
    """Curves along the prior precision, each with its highest point, by title."""
    figure, axes = _panels(len(panels))
    colours: dict[str, str] = {}
    for ax, (title, curves) in zip(axes, panels.items(), strict=True):
        for label, values in curves.items():
            colour = colours.setdefault(label, f"C{len(colours)}")
            ax.plot(deltas, values, "o-", color=colour, markersize=4, label=label)
            best = int(np.argmax(values))
            ax.plot(deltas[best], values[best], "*", color=colour, markersize=14)
        ax.set(title=title, xscale="log", xlabel=r"prior precision $\delta$")
        ax.legend(fontsize=8, title="star: highest")
    axes[0].set_ylabel("nats per example")
    return figure


def _panels(count: int) -> tuple[Figure, Sequence[Axes]]:
    columns = min(count, COLUMNS)
    rows = -(-count // columns)
    size = (1.5 + 4.0 * columns, 4.2 * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for ax in axes.flat[count:]:
        ax.set_axis_off()
    return figure, list(axes.flat)[:count]
