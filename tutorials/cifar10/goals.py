"""Which goals are reached: as near to HMC as a row of the lecture's table, within some epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tutorials.cifar10.answers import NAMES, Answer
from tutorials.cifar10.predictions import Nearness, nearness
from tutorials.lecture_table import LECTURE_TABLE


class Goal(NamedTuple):
    """What is to be reached.

    Attributes:
        name: its words.
        nearness: the least agreement, and the most total variation.
        epochs: most epochs, of all members and chains.
        method: the method that is to reach it; None for any.
    """

    name: str
    nearness: Nearness
    epochs: float = float("inf")
    method: str | None = None


def of_lecture(row: str) -> Nearness:
    """How near to HMC a row of the lecture's table is."""
    _, *near = LECTURE_TABLE[row]
    return Nearness(*near)


GOALS = (
    Goal("the lecture's MFVI by mean-field VI", of_lecture("MFVI"), method=NAMES["mean_field"]),
    Goal("the lecture's SGLD", of_lecture("SGLD"), epochs=300),
    Goal("the lecture's best, SGHMC CLR", of_lecture("SGHMC CLR"), epochs=600),
)


class Reached(NamedTuple):
    """How near a method came to a goal after some epochs."""

    missing: float
    method: str
    epochs: int
    nearness: Nearness


def table(by_method: Mapping[str, Sequence[Answer]], hmc: np.ndarray) -> list[str]:
    """A row a goal: the answer of fewest epochs that reaches it, or else what comes closest."""
    head = ["goal", "agreement", "total variation", "epochs", "reached?", "by"]
    head += ["agreement", "total variation", "epochs"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for goal in GOALS:
        most = "any" if np.isinf(goal.epochs) else f"{goal.epochs}"
        cells = [goal.name, "{:.2%} | {:.3f}".format(*goal.nearness), most]
        best = closest(by_method, hmc, goal)
        if best:
            said = "{:.2%} | {:.4f}".format(*best.nearness)
            cells += ["no" if best.missing else "yes", best.method, said, str(best.epochs)]
        else:
            cells += ["no run yet", *[""] * 4]
        lines.append(f"| {' | '.join(cells)} |".replace("%", " %"))
    return lines


def closest(
    by_method: Mapping[str, Sequence[Answer]], hmc: np.ndarray, goal: Goal
) -> Reached | None:
    """The answer within the goal's epochs that misses it least, and of these the cheapest.

    What is missing is the larger of what the agreement and the total variation lack, each as a part
    of its goal; 0 where both are reached. None if no answer qualifies.
    """
    reached = []
    for method, answers in by_method.items():
        for answer in answers if goal.method in (None, method) else ():
            if answer.epochs <= goal.epochs:
                near = nearness(answer.said.p, hmc)
                disagreement = (1 - near.agreement) / (1 - goal.nearness.agreement)
                distance = near.total_variation / goal.nearness.total_variation
                missing = max(0.0, disagreement - 1, distance - 1)
                reached.append(Reached(missing, method, answer.epochs, near))
    return min(reached, key=lambda r: (r.missing, r.epochs), default=None)
