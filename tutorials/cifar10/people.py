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
from tutorials.cifar10.predictions import SMALLEST

SHOWN = 20


def shares(counts: np.ndarray) -> np.ndarray:
    """The distribution of people's answers, shape (N, 10)."""
    return counts / counts.sum(axis=1, keepdims=True)


def cross_entropy(p: np.ndarray, counts: np.ndarray) -> float:
    """-sum_c q_c log p_c in nats, q being people's answers; the mean over images."""
    return float(-(shares(counts) * np.log(np.maximum(p, SMALLEST))).sum(axis=1).mean())


def rank_correlation(p: np.ndarray, counts: np.ndarray) -> float:
    """Spearman's, of the entropy of a method and that of people."""
    of_people = scipy.stats.entropy(shares(counts), axis=1)
    return float(scipy.stats.spearmanr(scipy.stats.entropy(p, axis=1), of_people).statistic)


def table(answers: Mapping[str, np.ndarray], counts: np.ndarray) -> list[str]:
    """A row a method, by the cross-entropy under people's answers."""
    lines = [
        "| method | images | cross-entropy under people (nats) | rank correlation of entropies |",
        "|---|---|---|---|",
    ]
    rows = [
        (cross_entropy(p, counts[: len(p)]), rank_correlation(p, counts[: len(p)]), len(p), name)
        for name, p in answers.items()
    ]
    for crossed, correlation, number, name in sorted(rows):
        lines.append(f"| {name} | {number:,} | {crossed:.3f} | {correlation:.3f} |")
    floor = float(scipy.stats.entropy(shares(counts), axis=1).mean())
    lines.append(f"| people themselves | {len(counts):,} | {floor:.3f} | 1 |")
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
