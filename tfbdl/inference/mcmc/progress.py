"""The progress of a long run in a terminal, and the number of steps between two looks."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager

from rich.console import Console
from rich.progress import TextColumn

from tfbdl.terminal_bar import TerminalBar

SECONDS = 1.0
"""The seconds between two looks: how long Ctrl-C waits, and what a kill loses."""


class ChainProgress(AbstractContextManager["ChainProgress"]):
    """Shows what is done of a phase after each compiled call.

    Args:
        verbose: 0 for silence.
    """

    def __init__(self, verbose: int) -> None:
        phase = TextColumn("{task.description}")
        self._bar = TerminalBar(Console(file=sys.stderr), verbose, phase)
        self._task = self._bar.add_task("", total=None, state="")

    def __enter__(self) -> ChainProgress:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def at(self, phase: str, done: int, total: int, state: str = "") -> None:
        """Moves the bar to `done` of the `total` of a phase."""
        self._bar.update(self._task, description=phase, completed=done, total=total, state=state)


class Pace:
    """The number of steps that fill `SECONDS`: doubled while calls are short.

    Args:
        most: steps of a call.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 1
        self._begun: float | None = None

    def next(self, left: int) -> int:
        """Steps of the next call, if so many are left; to be asked before each."""
        now = time.monotonic()
        if self._begun is not None:
            ratio = SECONDS / max(now - self._begun, 1e-9)
            self._count = max(1, min(int(self._count * min(ratio, 2.0)), self._most))
        self._begun = now
        return min(self._count, left)
