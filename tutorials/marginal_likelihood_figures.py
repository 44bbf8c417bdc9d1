"""The figures of `marginal_likelihood.py`: a panel for each data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

Rows = Sequence[Mapping[str, Any]]


def networks(panels: Mapping[str, Sequence[tuple[int, int, Mapping[str, Any]]]]) -> plt.Figure:
    """Test log probability against evidence, of networks of (width, depth), by title."""
    figure, axes = _panels(len(panels))
    for ax, (title, found) in zip(axes, panels.items(), strict=True):
        for depth in sorted({depth for _, depth, _ in found}):
            own = [(width, row) for width, of, row in found if of == depth]
            evidence = [row["evidence"] for _, row in own]
            scores = [row["test_log_prob"] for _, row in own]
            sizes = [30.0 + 60.0 * np.log10(width) for width, _ in own]
            ax.scatter(evidence, scores, sizes, alpha=0.6, label=f"depth {depth}")
            for (width, _), x, y in zip(own, evidence, scores, strict=True):
                ax.text(x, y, str(width), fontsize=7, ha="center", va="center")
        ax.set(title=title, xlabel="log evidence (nats per training example)")
    axes[0].set_ylabel("test log probability (nats per example)")
    axes[0].legend(fontsize=8, title="numbers: width")
    return figure


def precisions(deltas: Sequence[float], panels: Mapping[str, Rows]) -> plt.Figure:
    """Evidence and test log probability along the prior precision, by title."""
    figure, axes = _panels(len(panels))
    for ax, (title, rows) in zip(axes, panels.items(), strict=True):
        for column, label in (("evidence", "log evidence"), ("test_log_prob", "test data")):
            values = [row[column] for row in rows]
            (line,) = ax.plot(deltas, values, "o-", markersize=4, label=label)
            best = int(np.argmax(values))
            ax.plot(deltas[best], values[best], "*", color=line.get_color(), markersize=14)
        ax.set(title=title, xscale="log", xlabel=r"prior precision $\delta$")
    axes[0].set_ylabel("nats per example")
    axes[0].legend(fontsize=8, title="star: highest")
    return figure


def _panels(count: int) -> tuple[plt.Figure, Sequence[plt.Axes]]:
    figure, axes = plt.subplots(
        1, count, figsize=(1.5 + 4.0 * count, 4.2), layout="constrained", squeeze=False
    )
    return figure, axes[0]
