"""Names beside points of a figure, where they cover neither each other nor other points."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.transforms import Bbox

PLACES = tuple(
    ((side * 6, 11 * step), horizontal)
    for step, (side, horizontal) in itertools.product(
        (0, 1, -1, 2, -2, 3, -3), ((1, "left"), (-1, "right"))
    )
)
"""Offsets in points and alignments that are tried, the nearest first."""


def label_points(ax: Axes, points: Mapping[str, tuple[float, float]], size: float = 8) -> None:
    """Writes each name at the first place where it covers nothing, with a line from its point.

    Args:
        ax: axes whose limits, scales and layout are final.
        points: the place of each name, in data coordinates.
        size: points of the letters' height.
    """
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    at = ax.transData.transform(list(points.values()))
    taken = [Bbox.from_bounds(x - 5, y - 5, 10, 10) for x, y in at]
    for name, point in points.items():
        for offset, horizontal in PLACES:
            label = ax.annotate(
                name,
                point,
                xytext=offset,
                textcoords="offset points",
                horizontalalignment=horizontal,
                verticalalignment="center",
                size=size,
            )
            box = label.get_window_extent()
            if (
                ax.bbox.containsx(box.x0)
                and ax.bbox.containsx(box.x1)
                and not any(box.overlaps(other) for other in taken)
            ):
                break
            label.remove()
        else:
            label = ax.annotate(name, point, xytext=(6, 0), textcoords="offset points", size=size)
        taken.append(label.get_window_extent())
        ax.annotate(
            "",
            point,
            xytext=label.get_position(),
            textcoords="offset points",
            arrowprops={"arrowstyle": "-", "color": "0.5", "linewidth": 0.6},
        )
