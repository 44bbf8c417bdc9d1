"""Calibration of predicted distributions of real numbers, from their values at the targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.stats

from tfbdl.arguments import positive_integer
from tfbdl.examples import as_array
from tfbdl.plots import checks
from tfbdl.plots.axes import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def pit_histogram(pit: np.ndarray, num_bins: int = 10, ax: Axes | None = None) -> Axes:
    """Draws the histogram of P(Y <= y), which is level where predictions are right.

    It rises at both ends where they are too narrow, and in the middle where they are too wide
    (Dawid 1984). If predictions are right and targets independent, each count is in the grey band
    with a probability of 95 %.

    Args:
        pit: P(Y <= y) of each target, of any shape, in [0, 1], as
            `metrics.probability_integral_transform` or `Prediction.cdf` give it.
        num_bins: bins of equal width, at most 1,000.
        ax: the axes to draw on; None makes a new pyplot figure.

    Raises:
        ValueError: if there are none, or they leave [0, 1].
    """
    num_bins = positive_integer("num_bins", num_bins, most=1000)
    u = _values(pit)
    ax = new_axes(ax, figsize=(5, 3.5))
    count, edges = np.histogram(u.clip(0.0, 1.0), num_bins, (0.0, 1.0))
    unit = num_bins / u.size
    ax.bar(
        edges[:-1], unit * count, 1.0 / num_bins, align="edge", edgecolor="white", label="targets"
    )
    low, high = unit * scipy.stats.binom(u.size, 1.0 / num_bins).ppf([0.025, 0.975])
    ax.axhspan(low, high, color="black", alpha=0.15, label="95 % of right predictions")
    ax.axhline(1.0, linestyle="--", color="black", linewidth=1)
    ax.set(xlim=(0, 1), xlabel=_VALUE, ylabel="density")
    ax.legend(fontsize=8)
    return ax


def quantile_calibration(pit: np.ndarray, ax: Axes | None = None) -> Axes:
    """Draws the share of targets below their predicted q-quantile against q.

    On the diagonal, a share q is below (Kuleshov et al. 2018). If predictions are right and targets
    independent, the whole line is in the grey band, of Dvoretzky, Kiefer and Wolfowitz, with a
    probability of 95 %.

    Args:
        pit: as in `pit_histogram`.
        ax: the axes to draw on; None makes a new pyplot figure.

    Raises:
        ValueError: if there are none, or they leave [0, 1].
    """
    from tfbdl import metrics  # noqa: PLC0415 (slow)

    u = np.sort(_values(pit).clip(0.0, 1.0))
    ax = new_axes(ax, figsize=(4.2, 4.2))
    levels = np.concatenate([[0.0], u, [1.0]])
    shares = np.concatenate([[0.0], np.arange(1, u.size + 1) / u.size, [1.0]])
    ax.plot(levels, shares, drawstyle="steps-post", label="targets")
    half = np.sqrt(np.log(2.0 / 0.05) / (2.0 * u.size))
    ends = np.array([0.0, 1.0])
    ax.fill_between(ends, ends - half, ends + half, color="black", alpha=0.15)
    ax.plot(ends, ends, "--", color="black", linewidth=1, label="calibrated")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="level q", aspect="equal")
    ax.set_ylabel("share of targets below the q-quantile")
    error = metrics.quantile_calibration_error(u)
    ax.set_title(f"quantile calibration error {100 * error:.1f} %", fontsize=10)
    ax.legend(fontsize=8, loc="upper left")
    return ax


_VALUE = "P(Y <= y): predicted distribution function at the target"


def _values(pit: np.ndarray) -> np.ndarray:
    u = as_array("pit", pit).ravel()
    return checks.in_unit_interval("pit", checks.shaped("pit", u, "n"), "")
