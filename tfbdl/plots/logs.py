"""Draws the curves that training logs record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfbdl.arguments import instance
from tfbdl.plots.axes import line_style, new_axes
from tfbdl.plots.checks import not_empty
from tfbdl.training.log import TrainLog

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UNITS = {
    "acc": "fraction",
    "cent": "nats per example",
    "elbo": "nats per example",
    "ent": "nats per data set",
    "kl": "nats per data set",
}


def log_curves(logs: Mapping[str, TrainLog], metric: str, ax: Axes | None = None) -> Axes:
    """Draws one metric of several runs against the epoch.

    A run keeps its colour in every panel, as the colour follows its place in ``logs``. Runs
    without the metric are left out, and nan or infinite values leave a gap.

    Args:
        logs: the runs by the name that the legend shows.
        metric: the metric to draw, a column of the logs such as "elbo".
        ax: where to draw; None makes a new pyplot figure.

    Returns:
        The axes with the curves.

    Raises:
        ValueError: if there is no run, one is no log, or none has the metric.
    """
    not_empty("logs", logs)
    for run, log in logs.items():
        instance(f"logs[{run!r}]", log, TrainLog, "what tfbdl.read_log gives")
    instance("metric", metric, str, "the name of a column")
    if not any(metric in log.metrics for log in logs.values()):
        known = ", ".join(dict.fromkeys(name for log in logs.values() for name in log.metrics))
        raise ValueError(f"metric is {metric!r}, but the logs have: {known or 'none'}")
    ax = new_axes(ax)
    curves = {}
    for i, (run, log) in enumerate(logs.items()):
        if metric in log.metrics:
            (curves[_literal(run)],) = ax.plot(
                log.epochs,
                log.metrics[metric],
                **line_style(i),
                marker="o",  # an epoch between two gaps has no line
                markersize=2,
            )
    unit = f" ({_UNITS[metric]})" if metric in _UNITS else ""
    ax.set_xlabel("epoch")
    ax.set_ylabel(_literal(metric) + unit)
    ax.locator_params(axis="x", integer=True)
    ax.grid(alpha=0.3)
    ax.legend(list(curves.values()), list(curves))
    return ax


def _literal(text: str) -> str:
    return text.replace("$", r"\$")
