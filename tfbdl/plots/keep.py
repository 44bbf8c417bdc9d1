"""Pictures of learned dropout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tfbdl.examples import as_array
from tfbdl.plots import checks
from tfbdl.plots.axes import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def keep_probabilities(layers: Mapping[str, ArrayLike], ax: Axes | None = None) -> Axes:
    """Draws the histogram over a layer's units of learned keep probabilities, with its mean.

    Args:
        layers: keep probabilities, shape (units,) each, by the layer name that the legend shows.
        ax: the axes to draw on; None makes a new pyplot figure.

    Raises:
        ValueError: if there are none, or they are no probabilities.
    """
    checks.not_empty("layers", layers)
    probabilities = {}
    for name, keep in layers.items():
        values = as_array(f"layers[{name!r}]", keep).ravel()
        values = checks.shaped(f"layers[{name!r}]", values, "units")
        probabilities[name] = checks.in_unit_interval(f"layers[{name!r}]", values, "")
    ax = new_axes(ax, figsize=(5, 3.5))
    bins = np.linspace(0, 1, 51).tolist()
    for i, (name, keep) in enumerate(probabilities.items()):
        label = f"{name}: mean {keep.mean():.3f}"
        ax.hist(keep, bins, color=f"C{i}", alpha=0.6, label=label)
        ax.axvline(keep.mean(), color=f"C{i}", linestyle="--")
    ax.set_xlim(0, 1)
    ax.set_ylim(top=(1.1 + 0.1 * len(probabilities)) * ax.get_ylim()[1])  # with room for the legend
    ax.set_xlabel("learned keep probability")
    ax.set_ylabel("units")
    ax.legend(loc="upper left", fontsize=8, framealpha=1)
    return ax
