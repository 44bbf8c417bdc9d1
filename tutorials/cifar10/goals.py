"""Which goals are reached: an agreement and a total variation, within some epochs in all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tfbdl import metrics
from tutorials.cifar10.answers import NAMES, Answer


class Goal(NamedTuple):
    """What is to be reached.

    Attributes:
        name: its words.
        agreement: least share of test images with HMC's class.
        total_variation: most total variation from HMC.
        epochs: most epochs, of all members and chains.
        method: the method that is to reach it; None for any.
    """

    name: str
    agreement: float
    total_variation: float
    epochs: float = float("inf")
    method: str | None = None


GOALS = (
    Goal("the lecture's MFVI by mean-field VI", 0.8875, 0.136, method=NAMES["mean_field"]),
    Goal("the lecture's SGLD", 0.9154, 0.110, 300),
    Goal("the lecture's best, SGHMC CLR", 0.9267, 0.099, 600),
)


class Reached(NamedTuple):
    """How near a method came to a goal after some epochs."""

    missing: float
    method: str
    epochs: int
    agreement: float
    total_variation: float


def table(by_method: Mapping[str, Sequence[Answer]], hmc: np.ndarray) -> list[str]:
    """A row a goal: the answer of fewest epochs that reaches it, or else what comes nearest."""
    head = ["goal", "agreement", "total variation", "epochs", "reached?", "by"]
    head += ["agreement", "total variation", "epochs"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for goal in GOALS:
        asked = [f"{goal.agreement:.2%}", f"{goal.total_variation:.3f}", f"{goal.epochs:.0f}"]
        cells = [goal.name, *asked]
        best = nearest(by_method, hmc, goal)
        if best:
            said = [f"{best.agreement:.2%}", f"{best.total_variation:.4f}", str(best.epochs)]
            cells += ["no" if best.missing else "yes", best.method, *said]
        else:
            cells += ["no run yet", *[""] * 4]
        lines.append(f"| {' | '.join(cells)} |".replace("%", " %").replace("inf", "any"))
    return lines


def nearest(
    by_method: Mapping[str, Sequence[Answer]], hmc: np.ndarray, goal: Goal
) -> Reached | None:
    """The answer within the goal's epochs that misses it least, and of these the cheapest.

    What is missing is the larger of what the agreement and the total variation lack, each as a part
    of its goal; 0 where both are reached. None if no answer qualifies.
    """
    reached = []
    for method, answers in by_method.items():
        for answer in answers if goal.method in (None, method) else ():
            if answer.epochs > goal.epochs:
                continue
            p = answer.said.p[: len(hmc)]
            agreement, distance = metrics.agreement(p, hmc), metrics.total_variation(p, hmc)
            lacks = (1 - agreement) / (1 - goal.agreement), distance / goal.total_variation
            missing = max(0.0, *(lack - 1 for lack in lacks))
            reached.append(Reached(missing, method, answer.epochs, agreement, distance))
    return min(reached, key=lambda r: (r.missing, r.epochs), default=None)
