"""The lecture's table on its own experiment, and how methods come near to HMC."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tfbdl import metrics
from tfbdl.data import cifar10_hmc_probabilities, cifar10_human_counts
from tutorials import run_files
from tutorials.cifar10 import goals, limits, people, problem, shift
from tutorials.cifar10.answers import Answer, curves, ensembles
from tutorials.cifar10.predictions import SMALLEST, Nearness, Predicted, nearness, write
from tutorials.lecture_table import LECTURE_TABLE

TICKS = (5, 10, 20, 50, 100, 200, 300, 600)
COLUMNS = ("accuracy", "agreement", "total variation", "NLL (nats)", "ECE")
Curves = Mapping[str, Sequence[Answer]]


def report(args: argparse.Namespace) -> None:
    """Tables, figures, and the averaged probabilities, of the runs that there are."""
    by_method = curves(args.results)
    if not by_method:
        raise FileNotFoundError(f"{args.results} has no runs with predictions; train some first")
    y, hmc = problem.labels(), cifar10_hmc_probabilities()
    folder = args.results
    last = {name: answers[-1].said for name, answers in by_method.items()}
    for name, said in last.items():
        file = f"{name.lower().replace(',', '').replace(' ', '_')}.npz"
        write(folder / "probabilities" / file, said._asdict())
    run_files.write_table(folder / "table.md", table(by_method, y, hmc))
    run_files.write_table(folder / "goals.md", goals.table(by_method, hmc))
    run_files.write_table(folder / "limits.md", limits.table(ensembles(args.results), hmc))
    run_files.write_figure(approach(by_method, hmc), folder / "approach.png")
    run_files.write_figure(between(last, hmc), folder / "between.png")
    counts = cifar10_human_counts()
    run_files.write_table(folder / "people.md", people.table(last, hmc, counts))
    best = nearest(by_method, hmc)[0]
    figure = people.disagreement(problem.test_images(), last[best].p, counts, best)
    run_files.write_figure(figure, folder / "people.png")
    under_shift = shift.shifted(args.results)
    if under_shift:
        own = y[: problem.SHIFTED]
        run_files.write_table(folder / "shift.md", shift.table(under_shift, own))
        run_files.write_figure(shift.figure(under_shift, own), folder / "shift.png")


def nearest(by_method: Curves, hmc: np.ndarray) -> list[str]:
    """The methods in the order of their total variation from HMC."""

    def distance(name: str) -> float:
        return nearness(by_method[name][-1].said.p, hmc).total_variation

    return sorted(by_method, key=distance)


def scores(p: np.ndarray, y: np.ndarray, hmc: np.ndarray) -> tuple[float, ...]:
    """The columns: agreement and total variation on the images that HMC's answers are known of."""
    return (
        float((p.argmax(axis=1) == y).mean()),
        *nearness(p, hmc),
        metrics.negative_log_likelihood(y, np.maximum(p, SMALLEST)),
        metrics.expected_calibration_error(y, p),
    )


def table(by_method: Curves, y: np.ndarray, hmc: np.ndarray) -> list[str]:
    """A row a method, and the lecture's rows below."""
    lines = [f"| method | {' | '.join(COLUMNS)} | epochs | CPU hours |", "|---" * 8 + "|"]
    for name in nearest(by_method, hmc):
        last = by_method[name][-1]
        cells = words(scores(last.said.p, y, hmc))
        lines.append(f"| {name} | {cells} | {last.epochs} | {last.hours:.1f} |")
    own = y[: len(hmc)]
    of_hmc = scores(hmc, own, hmc)
    lines.append(f"| HMC's chains together | {words((of_hmc[0], None, None, *of_hmc[3:]))} | | |")
    for name, row in LECTURE_TABLE.items():
        lines.append(f"| lecture: {name} | {words((*row, None, None))} | | |")
    return lines


def words(row: Sequence[float | None]) -> str:
    """The cells of a row: percents, then numbers."""
    form = ("{:.2%}", "{:.2%}", "{:.3f}", "{:.3f}", "{:.3f}")
    return " | ".join(
        "" if value is None else f.format(value).replace("%", " %")
        for f, value in zip(form, row, strict=True)
    )


def approach(by_method: Curves, hmc: np.ndarray) -> Figure:
    """Agreement and total variation against the epochs that are spent, and the goals."""
    figure, axes = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    labels = ("agreement with HMC", "total variation from HMC")
    for ax, score, label in zip(axes, Nearness._fields, labels, strict=True):
        for number, (name, answers) in enumerate(by_method.items()):
            values = [getattr(nearness(a.said.p, hmc), score) for a in answers]
            style = "o-" if number < 10 else "s--"
            ax.plot([a.epochs for a in answers], values, style, markersize=3, label=name)
        for look, goal in zip((":", "v", "*"), goals.GOALS, strict=True):
            value = getattr(goal.nearness, score)
            if np.isinf(goal.epochs):
                ax.axhline(value, color="black", linestyle=look, label=goal.name)
            else:
                ax.plot(goal.epochs, value, f"k{look}", label=goal.name)
        ax.set(xlabel="epochs, of all members and chains", ylabel=label, xscale="log")
        ax.set_xticks(TICKS, map(str, TICKS))
        ax.grid(alpha=0.3, which="both")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def between(last: Mapping[str, Predicted], hmc: np.ndarray) -> Figure:
    """How often each two methods predict one class."""
    known = {name: said.p[: len(hmc)] for name, said in last.items()} | {"HMC": hmc}
    names = list(known)
    matrix = np.array([[metrics.agreement(known[a], known[b]) for a in names] for b in names])
    size = 2.5 + 0.6 * len(names)
    figure, ax = plt.subplots(figsize=(size, size - 0.8), layout="constrained")
    off = matrix[~np.eye(len(names), dtype=bool)]
    image = ax.imshow(100 * matrix, vmin=100 * off.min(), vmax=100, cmap="viridis")
    for (i, j), value in np.ndenumerate(matrix):
        dark = value < (off.min() + 1) / 2
        color = "white" if dark else "black"
        ax.text(j, i, f"{100 * value:.1f}", ha="center", va="center", size=7, color=color)
    ax.set_xticks(range(len(names)), names, rotation=60, ha="right")
    ax.set_yticks(range(len(names)), names)
    figure.colorbar(image, ax=ax, label="test images with the same predicted class (%)")
    return figure
