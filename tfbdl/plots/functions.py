"""Pictures of functions drawn from a posterior."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tfbdl.arguments import positive_integer
from tfbdl.examples import as_array
from tfbdl.plots import checks
from tfbdl.plots.axes import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tfbdl.predictive import Prediction


def function_draws(
    x: np.ndarray,
    draws: np.ndarray,
    data: tuple[np.ndarray, np.ndarray],
    ax: Axes | None = None,
    shown: int = 20,
) -> Axes:
    """Draws single functions as thin lines over their mean and the band of 2 standard deviations.

    Args:
        x: inputs, shape (n,) or (n, 1), increasing.
        draws: shape (S, n) or (S, n, 1), S functions at x.
        data: (x, y) of the training points.
        ax: the axes to draw on; None makes a new pyplot figure.
        shown: the number of functions, of S, that are drawn as lines.

    Raises:
        ValueError: if the arrays are not such.
    """
    x = checks.curve("x", x)
    positive_integer("shown", shown)
    draws = as_array("draws", draws)
    draws = draws[..., 0] if draws.ndim == 3 and draws.shape[2] == 1 else draws
    draws = checks.shaped("draws", draws, "S", len(x))
    x_data, y_data = _data(data)
    ax = new_axes(ax, figsize=(5, 3.5))
    mean, deviation = draws.mean(0, np.float64), draws.std(0, np.float64)
    label = f"{min(shown, len(draws))} drawn functions"
    for line in draws[:shown]:
        ax.plot(x, line, color="black", linewidth=0.5, alpha=0.5, label=label)
        label = "_"
    low, high = mean - 2 * deviation, mean + 2 * deviation
    ax.fill_between(x, low, high, color="C0", alpha=0.25, label="mean ± 2 sd of draws")
    ax.plot(x, mean, color="C0", label="mean of draws")
    ax.plot(x_data, y_data, ".", color="C3", markersize=4, label="data")
    ax.set_xlabel("x")
    ax.set_ylabel("y")
    return ax


def predictive_bands(
    x: np.ndarray,
    prediction: Prediction,
    data: tuple[np.ndarray, np.ndarray] | None = None,
    level: float = 0.95,
    ax: Axes | None = None,
) -> Axes:
    """Draws a regression: the mean, how far functions differ, and where new data will lie.

    Args:
        x: inputs, shape (n,) or (n, 1), increasing.
        prediction: `tfbdl.predict(model, x, ...)` with one output.
        data: (x, y) of the training points.
        level: the probability of the interval of y, in (0, 1).
        ax: the axes to draw on; None makes a new pyplot figure.

    Raises:
        ValueError: if `level` is not in (0, 1), the arrays are not such, or the prediction is not
            of one real number at each x.
    """
    x = checks.curve("x", x)
    if not hasattr(prediction, "epistemic_variance"):
        raise ValueError("prediction is none; give what tfbdl.predict(model, x) returns")
    ends = prediction.interval(level)
    mean = checks.curve("prediction.mean", prediction.mean, len(x))
    low, high = (np.ravel(end) for end in ends)
    points = None if data is None else _data(data)
    ax = new_axes(ax, figsize=(5, 3.5))
    two_stddevs = 2 * np.ravel(prediction.epistemic_stddev)
    new = "new y" if prediction.likelihood is not None else "functions"
    ax.fill_between(x, low, high, color="C0", alpha=0.15, label=f"{100 * level:g} % of {new}")
    ax.fill_between(
        x,
        mean - two_stddevs,
        mean + two_stddevs,
        color="C0",
        alpha=0.35,
        label="mean ± 2 epistemic sd",
    )
    ax.plot(x, mean, color="C0", label="predictive mean")
    if points is not None:
        ax.plot(*points, ".", color="C3", markersize=4, label="data")
    ax.set(xlabel="x", ylabel="y")
    return ax


def _data(data: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(data, (list, tuple)) or len(data) != 2:
        raise ValueError("data must be (x, y), the training points")
    x = checks.curve("data[0]", data[0])
    return x, checks.curve("data[1]", data[1], len(x))
