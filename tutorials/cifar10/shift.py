"""The same networks on corrupted images: does what is near HMC fall as HMC does?

Izmailov et al. (2021, section 5.3) find that HMC loses more under corruption than plain training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from tfbdl import metrics
from tutorials.cifar10.answers import SAMPLERS, Run, ends, ensembles, groups
from tutorials.cifar10.predictions import SHIFTED_FUNCTIONS, SMALLEST, kept_shifted

Shifted = Mapping[str, np.ndarray]
"""Probabilities by the kind of corruption, shape (5, N, 10)."""
MEASURES = {
    "accuracy": lambda y, p: float((p.argmax(axis=1) == y).mean()),
    "NLL (nats)": lambda y, p: metrics.negative_log_likelihood(y, np.maximum(p, SMALLEST)),
    "ECE": metrics.expected_calibration_error,
}


def shifted(results: Path) -> dict[str, Shifted]:
    """The answers of each method: those of its first run, or means over all its runs."""
    return dict(_each(results))


def _each(results: Path) -> Iterator[tuple[str, Shifted]]:
    for group in groups(results):
        chains = group[0].settings["command"] in SAMPLERS
        ended = [run for run in group if run.has_ended]
        if (of := mean(ended if chains else ends(ended)[:1])) is not None:
            yield group[0].method, of
    for method, members in ensembles(results):
        if (of := mean(members)) is not None:
            yield method, of


def mean(group: Sequence[Run]) -> Shifted | None:
    """The mean over the answers of runs; None where one has none."""
    each = [kept_shifted(run.folder, run.settings["epochs"]) for run in group]
    files = [arrays for arrays in each if arrays is not None]
    if not files or len(files) < len(each):
        return None
    return {kind: np.mean([file[kind] for file in files], axis=0) for kind in files[0]}


def table(answers: Mapping[str, Shifted], y: np.ndarray) -> list[str]:
    """A row a method: means over kinds, by strength."""
    lines = [
        f"{len(y):,} test images. What draws functions draws {SHIFTED_FUNCTIONS} of each run here, "
        "fewer than for the other tables."
    ]
    for name, measure in MEASURES.items():
        lines += ["", f"{name}, mean over the kinds, by strength:", ""]
        lines += ["| method | 1 | 2 | 3 | 4 | 5 |", "|---" * 6 + "|"]
        for method, by_kind in answers.items():
            values = np.mean([[measure(y, p) for p in of] for of in by_kind.values()], axis=0)
            lines.append(f"| {method} | " + " | ".join(f"{value:.3f}" for value in values) + " |")
    return lines


def figure(answers: Mapping[str, Shifted], y: np.ndarray) -> Figure:
    """A row a measure, a column a kind of corruption."""
    kinds = list(next(iter(answers.values())))
    made, axes = plt.subplots(
        len(MEASURES), len(kinds), figsize=(15, 9), sharex=True, sharey="row", layout="constrained"
    )
    for row, (name, measure) in zip(axes, MEASURES.items(), strict=True):
        row[0].set_ylabel(name)
        for ax, kind in zip(row, kinds, strict=True):
            for number, (method, by_kind) in enumerate(answers.items()):
                values = [measure(y, p) for p in by_kind[kind]]
                style = "o-" if number < 10 else "s--"
                ax.plot(range(1, 6), values, style, markersize=3, label=method)
            ax.grid(alpha=0.3)
    for ax, kind in zip(axes[0], kinds, strict=True):
        ax.set_title(kind.replace("_", " "))
    for ax in axes[-1]:
        ax.set_xlabel("strength")
    made.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return made
