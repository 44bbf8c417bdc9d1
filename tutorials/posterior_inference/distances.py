"""How near predictions are to the reference's: what `table` shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tfbdl import metrics
from tutorials.lecture_table import LECTURE_TABLE
from tutorials.posterior_inference.reference import Reference

Rows: TypeAlias = Mapping[str, list[dict[str, float]]]
"""The scores of each method, of each seed or chain."""

COLUMNS = {
    "accuracy": ("accuracy", 100, "{:.2f} ± {:.2f} %"),
    "agreement": ("agreement", 100, "{:.2f} ± {:.2f} %"),
    "total_variation": ("total variation", 1, "{:.3f} ± {:.3f}"),
    "nll": ("NLL (nats)", 1, "{:.3f} ± {:.3f}"),
    "ece": ("ECE", 100, "{:.2f} ± {:.2f} %"),
    "seconds": ("seconds", 1, "{:.0f} ± {:.0f}"),
}
"""Titles, units and formats of the measured quantities."""
STOCHASTIC_GRADIENTS = ("SGLD", "SGHMC", "SGHMC CLR", "SGHMC CLR-Prec")
"""The methods of the lecture, where all are nearer to HMC than MFVI."""


def scores(p: np.ndarray, reference: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Scores of class probabilities p, shape (N, classes)."""
    return {
        "accuracy": float(np.mean(p.argmax(-1) == y)),
        "agreement": metrics.agreement(p, reference),
        "total_variation": metrics.total_variation(p, reference),
        "nll": metrics.negative_log_likelihood(y, np.maximum(p, 1e-12)),
        "ece": metrics.expected_calibration_error(y, p),
    }


def table(rows: Rows, reference: Reference) -> list[str]:
    """Mean and standard deviation over chains or seeds; and where the lecture's order fails."""
    titles = [title for title, *_ in COLUMNS.values()]
    lines = [
        f"| | {' | '.join(titles)} | agreement, lecture | total variation, lecture |",
        "|---" * (len(titles) + 3) + "|",
    ]
    for name, records in rows.items():
        cells = []
        for column, (_, unit, form) in COLUMNS.items():
            values = unit * np.array([record[column] for record in records])
            known = np.isfinite(values).all()
            cells.append(form.format(values.mean(), values.std(ddof=1)) if known else "-")
        theirs = LECTURE_TABLE.get(name)
        cells += (
            [f"{100 * theirs.agreement:.2f} %", f"{theirs.total_variation:.3f}".lstrip("0")]
            if theirs
            else ["-", "-"]
        )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    most, median = reference.rhat
    lines += [
        "",
        f"HMC: {len(reference.p)} chains, acceptance {reference.acceptance:.2f}, "
        f"{reference.leapfrog_steps:.0f} gradients a sample; R-hat of the predictions {most:.3f} "
        f"at most, median {median:.3f}.",
        "",
        *ordering(rows),
    ]
    return lines


def ordering(rows: Rows) -> list[str]:
    """A line for each column in which the lecture's order is to be found, or is not."""
    lines = []
    for column, sign in (("agreement", 1), ("total_variation", -1)):
        mean = {n: sign * np.mean([r[column] for r in records]) for n, records in rows.items()}
        present = [name for name in STOCHASTIC_GRADIENTS if name in mean]
        beyond = [name for name in present if mean[name] <= mean.get("MFVI", np.nan)]
        nearer = [name for name in present if name not in beyond]
        title = COLUMNS[column][0]
        lines.append(
            f"By {title}, nearer to HMC than MFVI: {', '.join(nearer) or 'none'}; "
            f"not: {', '.join(beyond) or 'none'}."
        )
    return lines


def figure(rows: Rows) -> Figure:
    """The distances from the reference, and what they mean for the test images."""
    columns = ("total_variation", "agreement", "nll", "accuracy")
    mean = {name: np.mean([r["total_variation"] for r in rows[name]]) for name in rows}
    names = sorted(mean, key=lambda name: -mean[name])
    figure, axes = plt.subplots(1, 4, figsize=(14, 4.5), layout="constrained", sharey=True)
    for ax, column in zip(axes, columns, strict=True):
        title, unit, _ = COLUMNS[column]
        for place, name in enumerate(names):
            values = unit * np.array([record[column] for record in rows[name]])
            colour = "C3" if name == "HMC" else "C0"
            ax.plot(values, np.full(len(values), place), "o", color=colour, ms=4, alpha=0.5)
            ax.plot(values.mean(), place, "|", color=colour, ms=14, mew=2)
        ax.set(xlabel=title + (" (%)" if unit == 100 else ""))
        ax.grid(alpha=0.3)
        ax.locator_params(axis="x", nbins=5)
    axes[0].set_yticks(range(len(names)), names)
    figure.suptitle(
        "how near to Hamiltonian Monte Carlo: dots are seeds or chains, bars their mean"
    )
    return figure
