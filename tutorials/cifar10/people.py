"""What people see in the same images, and where methods and people part.

The answers of some 50 people to each test image are CIFAR-10H of Peterson et al. (2019, "Human
uncertainty makes classification more robust").
"""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import scipy.stats
from matplotlib.figure import Figure

from tfbdl.data.cifar10 import CLASSES
from tutorials.cifar10.predictions import SMALLEST, Predicted

SHOWN = 20


def shares(counts: np.ndarray) -> np.ndarray:
    """The distribution of people's answers, shape (N, 10)."""
    return counts / counts.sum(axis=1, keepdims=True)


def cross_entropy(p: np.ndarray, counts: np.ndarray) -> float:
    """-sum_c q_c log p_c in nats, q being people's answers; the mean over images."""
    return float(-(shares(counts) * np.log(np.maximum(p, SMALLEST))).sum(axis=1).mean())


def rank_correlation(uncertainty: np.ndarray, counts: np.ndarray) -> float:
    """Spearman's, of what a method is unsure of by image, and the entropy of people's answers."""
    of_people = scipy.stats.entropy(shares(counts), axis=1)
    return float(scipy.stats.spearmanr(uncertainty, of_people).statistic)


def table(answers: Mapping[str, Predicted], hmc: np.ndarray, counts: np.ndarray) -> list[str]:
    """A row a method, by the cross-entropy under people's answers on the images of HMC."""
    few = counts[: len(hmc)]
    rows: list[tuple[float, float | None, float, float | None, str]] = []
    for name, said in answers.items():
        on_few = Predicted(*(array[: len(hmc)] for array in said))
        information = on_few.mutual_information
        rows.append(
            (
                cross_entropy(on_few.p, few),
                cross_entropy(said.p, counts),
                rank_correlation(scipy.stats.entropy(on_few.p, axis=1), few),
                rank_correlation(information, few) if information.any() else None,
                name,
            )
        )
    entropy = rank_correlation(scipy.stats.entropy(hmc, axis=1), few)
    rows.append((cross_entropy(hmc, few), None, entropy, None, "HMC"))
    rows = sorted(rows, key=lambda row: row[0])
    q = shares(counts)
    rows.append((cross_entropy(shares(few), few), cross_entropy(q, counts), 1.0, None, "people"))
    head = [
        "method",
        f"cross-entropy under people (nats), {len(hmc):,} images",
        f"{len(counts):,} images",
        "rank correlation with people's entropy, of the entropy",
        "of the mutual information",
    ]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for *numbers, name in rows:
        cells = ("" if number is None else f"{number:.3f}" for number in numbers)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def disagreement(images: np.ndarray, p: np.ndarray, counts: np.ndarray, name: str) -> Figure:
    """The images on which a method and people part most, by total variation."""
    q = shares(counts)
    distance = 0.5 * np.abs(p - q).sum(axis=1)
    figure, axes = plt.subplots(2, SHOWN // 2, figsize=(15, 4.6), layout="constrained")
    for ax, i in zip(axes.flat, np.argsort(-distance), strict=False):
        ax.imshow(images[i])
        said, seen = q[i].argmax(), p[i].argmax()
        ax.set_title(
            f"people: {CLASSES[said]} {100 * q[i, said]:.0f} %\n"
            f"here: {CLASSES[seen]} {100 * p[i, seen]:.0f} %",
            fontsize=8,
        )
        ax.axis("off")
    figure.suptitle(f"{name}: the {SHOWN} test images on which it and people part most")
    return figure
