"""The axes of a plot: those that it is given, or new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfbdl.arguments import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes


DASHES = ("-", "--", ":", "-.")


def line_style(i: int) -> dict[str, Any]:
    """The colour and dashes of the line with this number, of its own up to 40 lines."""
    return {"color": f"C{i % 10}", "linestyle": DASHES[i // 10 % len(DASHES)]}


def new_axes(ax: Axes | None, **figure: Any) -> Axes:
    """`ax`, or the axes of a new pyplot figure made with the arguments `figure`.

    Raises:
        ValueError: if `ax` is something else.
    """
    from matplotlib.axes import Axes  # noqa: PLC0415 (slow)

    if ax is not None:
        if not isinstance(ax, Axes):
            raise ValueError(f"ax={shown(ax)} must be matplotlib axes")
        return ax
    import matplotlib.pyplot as plt  # noqa: PLC0415

    return plt.subplots(layout="constrained", **figure)[1]


def new_grid(axes: Any, *shape: int, **figure: Any) -> np.ndarray:
    """`axes` as an array of this shape, or those of a new pyplot figure.

    Raises:
        ValueError: if they are something else.
    """
    from matplotlib.axes import Axes  # noqa: PLC0415 (slow)

    if axes is None:
        import matplotlib.pyplot as plt  # noqa: PLC0415

        rows, columns = (1, *shape)[-2:]
        grid = plt.subplots(rows, columns, layout="constrained", squeeze=False, **figure)[1]
        return grid.reshape(shape)
    try:
        given = np.array(axes, object)
    except ValueError:  # rows have different lengths
        given = np.array(None)
    if given.shape != shape or not all(isinstance(ax, Axes) for ax in given.flat):
        raise ValueError(f"axes={shown(axes)} must be an array of matplotlib axes of shape {shape}")
    return given
