"""A progress bar for predictions that take long enough to wonder."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress

T = TypeVar("T")

PATIENCE = 1.0
"""Seconds before a bar appears."""


class Bar(AbstractContextManager["Bar"]):
    """Shows, in a terminal, how many of the calls are done.

    Args:
        total: number of calls; None if it is not known.
        verbose: 0 for no bar.
    """

    def __init__(self, total: int | None, verbose: int) -> None:
        console = Console(file=sys.stderr)
        self._may_show = bool(verbose) and console.is_terminal
        self._progress = Progress(console=console, transient=True)
        self._task = self._progress.add_task("predict", total=total)
        self._shown = False
        self._begun = time.monotonic()

    def watch(self, calls: Iterable[T]) -> Iterator[T]:
        """The results of the calls, counted as they come."""
        for result in calls:
            self._progress.advance(self._task)
            if self._may_show and time.monotonic() - self._begun > PATIENCE:
                self._shown = True
                self._progress.start()
            yield result

    def __exit__(self, *exception: object) -> None:
        if self._shown:
            self._progress.stop()
