"""The logs of the slides beside those of many seeds, and their accuracies."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np

from tutorials import run_files
from tutorials.records import Record

MC_DROPOUT = {
    "cent": "1.979612 1.094547 .715212 .523885 .433346 .366523 .276434 .225711 .204144 .164487",
    "wd": ".054315 .051379 .049918 .049172 .048822 .048710 .048749 .048887 .049059 .049250",
    "acc": ".336 .686 .760 .831 .862 .891 .926 .936 .945 .950",
}
VAE = {"elbo": "-400.16 -218.88 -206.14 -202.25 -200.18 -197.61"}
ACCURACY = {
    "base": ("89.37 ± 0.32", "-"),
    "mc_dropout": ("90.07 ± 0.44", "90.17 ± 0.23"),
    "concrete_dropout": ("90.23 ± 0.21", "90.20 ± 0.32"),
    "variational_dropout": ("88.77 ± 0.53", "89.60 ± 0.56"),
}
"""Test accuracies in percent, by the mean network and by drawn functions."""
UNITS = {"acc": "fraction"}
TITLES = {"log": "MC dropout", "vae": "VAE"}


def write(
    args: argparse.Namespace, name: str, slides: Mapping[str, str], records: Sequence[Record]
) -> None:
    """The table and the figure: each column of the log, epoch by epoch."""
    lines = ["| epoch | column | slides | mean | sd | (slides - mean) / sd |", "|---" * 6 + "|"]
    figure, axes = plt.subplots(
        1, len(slides), figsize=(4 * len(slides), 3.5), layout="constrained", squeeze=False
    )
    for ax, (column, numbers) in zip(axes.flat, slides.items(), strict=True):
        theirs = np.array(numbers.split(), float)
        runs = np.array([record[column] for record in records])
        mean, sd = runs.mean(0), runs.std(0, ddof=1)
        epochs = np.arange(1, len(theirs) + 1)
        ax.fill_between(
            epochs, mean - 3 * sd, mean + 3 * sd, alpha=0.3, label=f"3 sd of {len(runs)} seeds"
        )
        ax.plot(epochs, mean, label="mean")
        ax.plot(epochs, theirs, "k.", label="slides")
        unit = UNITS.get(column, "nats per example")
        ax.set(xlabel="epoch", ylabel=f"{column} ({unit})", xticks=epochs)
        for i, value in enumerate(theirs):
            z = (value - mean[i]) / max(sd[i], 1e-12)
            cells = (i + 1, column, f"{value:.4f}", f"{mean[i]:.4f}", f"{sd[i]:.4f}", f"{z:+.1f}")
            lines.append(f"| {' | '.join(map(str, cells))} |")
    axes.flat[0].legend()
    figure.suptitle(f"{TITLES[name]}: the slides' log and that of many seeds")
    run_files.write_table(args.savedir / f"{name}.md", lines)
    run_files.write_figure(figure, args.savedir / f"{name}.png")
