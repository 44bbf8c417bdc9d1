"""Where a plot goes that was given no axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def new_axes(ax: Axes | None, **figure: Any) -> Axes:
    """`ax`, or the axes of a new pyplot figure made with the arguments `figure`."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt  # noqa: PLC0415

    return plt.subplots(layout="constrained", **figure)[1]
