"""What the answers of all methods look like: a table, and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import scipy.stats
from matplotlib.figure import Figure

from tfbdl import metrics
from tutorials import run_files
from tutorials.pretrained.problem import KNOWN, Images

COLUMNS = {
    "accuracy": "accuracy",
    "nll": "NLL (nats)",
    "ece": "ECE",
    "auroc_errors": "AUROC of errors",
    "auroc_unknown": "of other classes",
    "auroc_digits": "of digits",
    "people": "rank correlation with people",
}
SHOWN = 10
Answers = Mapping[str, Mapping[str, np.ndarray]]


def table(folder: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Writes `scores.md`."""
    columns = " | ".join(COLUMNS.values())
    lines = [f"| trained | method | {columns} | CPU s to train | to ask | GB |"]
    lines.append("|---" * (len(COLUMNS) + 5) + "|")
    for record in records:
        values = " | ".join(f"{record[name]:.3f}" for name in COLUMNS)
        costs = f"{record['train_seconds']:.0f} | {record['ask_seconds']:.0f}"
        lines.append(
            f"| {record['part']} | {record['method']} | {values} | {costs} | "
            f"{record['peak_GB']:.2f} |"
        )
    run_files.write_table(folder / "scores.md", lines)


def figures(answers: Answers, images: Images) -> dict[str, Figure]:
    """The figures, by name; single methods are those of the best likelihood."""
    nll = metrics.negative_log_likelihood
    best = min(answers, key=lambda name: nll(images.y_test, answers[name]["test"]))
    return {
        "handed_over": curves(answers, images),
        "doubts": doubts(answers, best),
        "for_a_person": gallery(answers[best], best, images),
    }


def entropy(p: np.ndarray) -> np.ndarray:
    """The entropy of each prediction, in nats."""
    return scipy.stats.entropy(p, axis=1)


def handed_over(p: Mapping[str, np.ndarray], images: Images) -> tuple[np.ndarray, np.ndarray]:
    """Shares of pictures handed to a person, and of errors among those that the network keeps.

    The pictures are test images of the known classes and, a quarter of all, of the other classes,
    of which any answer is an error. The least certain go first.
    """
    number = len(images.test) // 3
    wrong = np.append(p["test"].argmax(axis=1) != images.y_test, np.ones(number, bool))
    order = np.argsort(np.append(entropy(p["test"]), entropy(p["unknown"][:number])))
    kept = np.arange(1, len(order) + 1)
    return 1 - kept / len(order), np.cumsum(wrong[order]) / kept


def titled(name: str) -> str:
    """What was trained, and how, in words."""
    part, _, method = name.replace("_", " ").partition(", ")
    return {"head": "a head", "tail": "the last blocks"}[part] + f", {method}"


def curves(answers: Answers, images: Images) -> Figure:
    """The errors that are left, against the pictures that are handed over."""
    parts = sorted({name.partition(",")[0] for name in answers})
    methods = sorted({titled(name).partition(", ")[2] for name in answers})
    figure, axes = plt.subplots(
        1,
        len(parts),
        figsize=(1 + 5 * len(parts), 4.5),
        sharey=True,
        layout="constrained",
        squeeze=False,
    )
    for ax, part in zip(axes[0], parts, strict=True):
        for name, p in answers.items():
            if name.startswith(part):
                share, error = handed_over(p, images)
                label = titled(name).partition(", ")[2]
                color = f"C{methods.index(label)}"
                ax.plot(100 * share[50:], 100 * error[50:], color, label=label, linewidth=1.3)
        ax.set_xlabel("pictures handed to a person (%)")
        ax.set_title({"head": "a head on frozen features", "tail": "the last blocks too"}[part])
        ax.legend(fontsize=8)
        ax.grid(alpha=0.3)
    axes[0, 0].set_ylabel("errors among the others (%)")
    figure.suptitle("a quarter of the pictures is of classes that the network does not know")
    return figure


def doubts(answers: Answers, best: str) -> Figure:
    """Entropies of the three kinds of pictures, under the plain softmax and the best method."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
    part = best.partition(",")[0]
    plain = {"head": "head,_softmax", "tail": "tail,_fine-tuned"}[part]
    names = {"test": "known classes", "unknown": "other classes", "digits": "digits in colour"}
    bins = np.linspace(0, np.log(len(KNOWN)), 31)
    for ax, name in zip(axes, (plain, best), strict=True):
        for key, label in names.items():
            ax.hist(entropy(answers[name][key]), bins, density=True, alpha=0.5, label=label)
        ax.set_xlabel("entropy of the prediction (nats)")
        ax.set_title(titled(name))
        ax.legend(fontsize=8)
    axes[0].set_ylabel("density")
    return figure


def gallery(p: Mapping[str, np.ndarray], name: str, images: Images) -> Figure:
    """Pictures that should go to a person, and, below, those of which it is surest."""
    figure, axes = plt.subplots(4, SHOWN, figsize=(1.25 * SHOWN, 6.2), layout="constrained")
    uncertain = {key: np.argsort(-entropy(p[key])) for key in ("test", "unknown", "digits")}
    rows = {
        "known classes": (images.test, p["test"], uncertain["test"]),
        "other classes": (images.unknown, p["unknown"], uncertain["unknown"]),
        "digits": (images.digits, p["digits"], uncertain["digits"]),
        "kept": (images.test, p["test"], uncertain["test"][::-1]),
    }
    for row, (label, (pictures, predicted, order)) in zip(axes, rows.items(), strict=True):
        for ax, i in zip(row, order[:SHOWN], strict=True):
            ax.imshow(pictures[i])
            top = predicted[i].argmax()
            ax.set_title(f"{KNOWN[top]} {100 * predicted[i, top]:.0f} %", fontsize=7)
            ax.set_xticks([])
            ax.set_yticks([])
        row[0].set_ylabel(label, fontsize=9)
    figure.suptitle(
        f"{titled(name)}: pictures to hand to a person, with the "
        "likeliest class; in the last row those that it keeps first",
        fontsize=10,
    )
    return figure
