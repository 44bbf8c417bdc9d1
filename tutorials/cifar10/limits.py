"""Do ensembles lack members? How near to HMC infinitely many would come.

With d_i = p_i - q the difference of a member from HMC, K members together are at a squared distance
of D + (S - D) / K: S the mean square of one difference, D the mean product of two. More members
take away the second term alone; D is what all of them have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tutorials.cifar10.answers import Run


def table(ensembles: Iterable[tuple[str, Sequence[Run]]], hmc: np.ndarray) -> list[str]:
    """A row an ensemble."""
    lines = [
        "| ensemble | members | one: S | all together | infinitely many: D |",
        "|---" * 5 + "|",
    ]
    for name, runs in ensembles:
        members = [run.answers()[-1].said.p[: len(hmc)] for run in runs]
        one, two = squared_distances(members, hmc)
        together = two + (one - two) / len(members)
        lines.append(f"| {name} | {len(members)} | {one:.4f} | {together:.4f} | {two:.4f} |")
    return lines


def squared_distances(members: Sequence[np.ndarray], hmc: np.ndarray) -> tuple[float, float]:
    """S and D: squares are summed over classes, in the mean over images."""
    differences = np.stack([np.asarray(p, np.float64) - hmc for p in members])
    products = np.einsum("inc,jnc->ij", differences, differences) / len(hmc)
    one, number = float(np.mean(np.diag(products))), len(members)
    two = (float(products.sum()) / number - one) / (number - 1)
    return one, two
