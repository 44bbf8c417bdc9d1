"""What the records show: means over seeds, and the answers of the first one."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from tfbdl import metrics, plots
from tutorials.point_labels import label_points
from tutorials.records import Record
from tutorials.uncertainty.record import ANGLES, MIDDLE

COLUMNS = {
    "accuracy": "accuracy",
    "nll": "negative log likelihood (nats)",
    "ece": "expected calibration error",
    "entropy": "mean predictive entropy (nats)",
}
NAMES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "digits": "digits"}

ByMethod = dict[str, list[Record]]
"""The records of one data set: all seeds of each method."""


def seeds(by_method: ByMethod) -> str:
    """How many there are, in words of a title."""
    most = max(map(len, by_method.values()))
    return "one seed" if most == 1 else f"{most} seeds"


def mean(of: list[Record], column: str) -> np.ndarray:
    """The mean at each angle, over seeds."""
    return np.mean([record["turned"][column] for record in of], axis=0)


def turned(sets: dict[str, ByMethod]) -> Figure:
    """A row a data set: how methods fare as test images turn."""
    figure, axes = plt.subplots(
        len(sets), 4, figsize=(15, 3.4 * len(sets)), layout="constrained", squeeze=False
    )
    for row, (data, by_method) in zip(axes, sets.items(), strict=True):
        for ax, (column, label) in zip(row, COLUMNS.items(), strict=True):
            for number, (name, of) in enumerate(by_method.items()):
                style = "o-" if number < 10 else "s--"
                ax.plot(ANGLES, mean(of, column), style, markersize=3, label=name)
            ax.set(xlabel=f"{NAMES[data]} turned by (degrees)", ylabel=label, xticks=ANGLES)
            ax.grid(alpha=0.3)
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=8
    )
    return figure


def costs(sets: dict[str, ByMethod]) -> Figure:
    """What a method gives for its training time: one point each, with its seeds as a bar."""
    figure, axes = plt.subplots(
        len(sets), 2, figsize=(11, 4.4 * len(sets)), layout="constrained", squeeze=False
    )
    labels = []
    for row, (data, by_method) in zip(axes, sets.items(), strict=True):
        for ax, (label, value) in zip(
            row,
            {
                "negative log likelihood (nats)": lambda r: r["turned"]["nll"][0],
                "AUROC of unknown images (%)": lambda r: 100 * r["auroc"],
            }.items(),
            strict=True,
        ):
            points = {}
            for number, (name, of) in enumerate(by_method.items()):
                y = [value(record) for record in of]
                minutes = float(np.mean([record["train_seconds"] for record in of])) / 60
                color = f"C{number % 10}"
                ax.errorbar(minutes, np.mean(y), np.std(y), fmt="o", color=color, capsize=3)
                points[name] = (minutes, float(np.mean(y)))
            ax.set(xlabel="training, minutes of one core", ylabel=label, xscale="log")
            ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            ax.xaxis.set_major_formatter("{x:g}")
            ax.xaxis.set_minor_formatter(NullFormatter())
            ax.set_title(f"{NAMES[data]}, {seeds(by_method)}")
            ax.margins(x=0.4)
            ax.grid(alpha=0.3, which="both")
            labels.append((ax, points))
    for ax, points in labels:
        label_points(ax, points)
    return figure


def unknown(by_method: ByMethod) -> Figure:
    """Entropies of known and unknown images; the height is logarithmic, as most lie at 0."""
    figure, axes = panels(len(by_method), 2.6)
    for ax, (name, of) in zip(axes.flat, by_method.items(), strict=False):
        first = first_seed(of)
        entropies = {"known": first["entropy_in"], "unknown": first["entropy_out"]}
        plots.uncertainty_histograms({k: np.array(v) for k, v in entropies.items()}, ax=ax)
        ax.set_yscale("log")
        ax.set_title(f"{name}: AUROC {100 * first['auroc']:.1f} %", fontsize=9)
        ax.label_outer()
    return figure


def reliability(by_method: ByMethod, y: np.ndarray) -> Figure:
    """Confidence and accuracy on turned images."""
    figure, axes = panels(len(by_method), 3.2)
    for ax, (name, p) in zip(axes.flat, answers(by_method).items(), strict=False):
        plots.reliability_diagram(y, p, num_bins=10, ax=ax)
        error = metrics.expected_calibration_error(y, p, num_bins=10)
        ax.set_title(f"{name}: error {100 * error:.1f} %", fontsize=9)
        ax.get_legend().remove()
        ax.label_outer()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8)
    figure.suptitle(f"images turned by {ANGLES[MIDDLE]} degrees: calibration")
    return figure


def risk(by_method: ByMethod, y: np.ndarray) -> Figure:
    """Errors among the predictions that are kept."""
    figure, ax = plt.subplots(figsize=(8, 5), layout="constrained")
    curves = {
        name: (y, p, -np.sum(p * np.log(p + 1e-12), -1)) for name, p in answers(by_method).items()
    }
    plots.risk_coverage(curves, ax=ax)
    ax.set_title(f"images turned by {ANGLES[MIDDLE]} degrees, the least certain refused first")
    return figure


def answers(by_method: ByMethod) -> dict[str, np.ndarray]:
    """Class probabilities of the turned images that are kept."""
    rounded = {name: np.array(first_seed(of)["p_turned"]) for name, of in by_method.items()}
    return {name: p / p.sum(-1, keepdims=True) for name, p in rounded.items()}


def first_seed(of: list[Record]) -> Record:
    """The record that has answers."""
    return next(record for record in of if "p_turned" in record)


def panels(count: int, height: float) -> tuple[Figure, Any]:
    """A figure with a panel for each method."""
    columns = min(count, 4)
    rows = -(-count // columns)
    return plt.subplots(
        rows,
        columns,
        figsize=(3.2 * columns, height * rows),
        layout="constrained",
        sharex=True,
        sharey=True,
        squeeze=False,
    )
