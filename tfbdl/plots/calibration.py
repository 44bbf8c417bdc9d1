"""Calibration: reliability diagrams, and the risk at each coverage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tfbdl.plots import checks
from tfbdl.plots.axes import line_style, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def reliability_diagram(
    y: np.ndarray, p: np.ndarray, num_bins: int = 15, ax: Axes | None = None
) -> Axes:
    """Draws accuracy against confidence, in bins, and the share of examples in each.

    On the diagonal, a share c of the predictions made with confidence c is right (Guo et al. 2017).

    Args:
        y: labels, shape (N,).
        p: class probabilities, shape (N, C).
        num_bins: bins of equal width.
        ax: the axes to draw on; None makes a new pyplot figure.

    Raises:
        ValueError: if y and p are no labels and probabilities.
    """
    from tfbdl import metrics  # noqa: PLC0415 (slow)

    reliability = metrics.reliability(y, p, num_bins)
    error = metrics.expected_calibration_error(y, p, num_bins)
    ax = new_axes(ax, figsize=(4.2, 4.2))
    filled = reliability.count > 0
    left = np.linspace(0.0, 1.0, num_bins + 1)[:-1][filled]
    bars: dict[str, Any] = {"width": 1.0 / num_bins, "align": "edge", "edgecolor": "white"}
    ax.bar(left, reliability.accuracy[filled], color="C0", label="accuracy", **bars)
    share = reliability.count[filled] / reliability.count.sum()
    ax.bar(left, share, color="black", alpha=0.35, label="share of examples", **bars)
    ax.plot([0, 1], [0, 1], "--", color="black", linewidth=1, label="calibrated")
    ax.plot(
        reliability.confidence[filled],
        reliability.accuracy[filled],
        "o",
        color="C1",
        markersize=4,
        label="at the mean confidence",
    )
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy", aspect="equal")
    ax.set_title(f"expected calibration error {100 * error:.1f} %", fontsize=10)
    ax.legend(fontsize=8, loc="upper left")
    return ax


def risk_coverage(
    methods: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]], ax: Axes | None = None
) -> Axes:
    """Draws the error among the predictions that are kept when the least sure ones are refused.

    Args:
        methods: (y, p, uncertainty) by name: labels (N,), class probabilities (N, C), and
            uncertainties (N,), in whose order predictions are refused.
        ax: the axes to draw on; None makes a new pyplot figure.

    Raises:
        ValueError: if there are none, or they are no labels, probabilities and uncertainties.
    """
    from tfbdl import metrics  # noqa: PLC0415 (slow)

    checks.not_empty("methods", methods)
    curves = {}
    for name, arrays in methods.items():
        if not isinstance(arrays, (list, tuple)) or len(arrays) != 3:
            raise ValueError(f"methods[{name!r}] must be (y, p, uncertainty)")
        try:
            curves[name] = metrics.risk_coverage(*arrays)
        except ValueError as error:
            raise ValueError(f"methods[{name!r}]: {error}") from None
    ax = new_axes(ax, figsize=(5, 3.5))
    for i, (name, curve) in enumerate(curves.items()):
        label = f"{name}, area {100 * curve.risk.mean():.2f} %"
        ax.plot(curve.coverage, 100 * curve.risk, label=label, **line_style(i))
    ax.set(xlim=(0, 1), xlabel="coverage: share of predictions that are kept")
    ax.set_ylabel("error among them (%)")
    ax.set_ylim(bottom=0)
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8)
    return ax
