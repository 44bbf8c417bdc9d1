"""Entropies on inputs like those of the training, and on others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tfbdl.arguments import text
from tfbdl.plots import checks
from tfbdl.plots.axes import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def uncertainty_histograms(
    uncertainties: Mapping[str, ArrayLike],
    label: str = "predictive entropy (nats)",
    ax: Axes | None = None,
) -> Axes:
    """Draws the distribution of an uncertainty in several data sets, as densities in equal bins.

    Args:
        uncertainties: shape (N,) each, by the name of the data set.
        label: the name of the values, and their unit.
        ax: the axes to draw on; None makes a new pyplot figure.

    Raises:
        ValueError: if there are none, or they are not such arrays.
    """
    checks.not_empty("uncertainties", uncertainties)
    text("label", label)
    arrays = [checks.shaped(f"uncertainties[{n!r}]", v, "N") for n, v in uncertainties.items()]
    low, high = (float(end([end(values) for values in arrays])) for end in (np.min, np.max))
    low = min(low, 0.0)
    ax = new_axes(ax, figsize=(5, 3.5))
    bins = np.linspace(low, max(high, low + 1e-6), 51).tolist()
    for name, values in zip(uncertainties, arrays, strict=True):
        ax.hist(values, bins, density=True, alpha=0.5, label=f"{name}, mean {values.mean():.2f}")
    ax.set(xlabel=label, ylabel="density", xlim=(bins[0], bins[-1]))
    ax.legend(fontsize=8)
    return ax
