"""The screen of a training run."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager

from rich.console import Console
from rich.progress import TextColumn

from tfbdl.terminal_bar import TerminalBar


class Progress(AbstractContextManager["Progress"]):
    """Prints log lines as they come and, in a terminal, a bar below them.

    Args:
        epochs: number of the last epoch.
        steps: steps in an epoch.
        verbose: 0 for silence.
    """

    def __init__(self, epochs: int, steps: int, verbose: int) -> None:
        self.verbose = verbose
        self._steps = steps
        self._console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        self._bar = TerminalBar(self._console, verbose, TextColumn("epoch"))
        self._task = self._bar.add_task("", total=epochs, state="")

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def echo(self, text: str) -> None:
        """Prints a piece of the log."""
        if self.verbose:
            self._console.print(text, end="", markup=False, emoji=False)

    def at(self, epoch: int, step: int) -> None:
        """Moves the bar to `step` of `epoch` (both count the completed ones)."""
        self._bar.update(self._task, completed=epoch, state=f"step {step}/{self._steps}")
