"""A progress bar below what is printed, in a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)


class TerminalBar(Progress):
    """Shows how much is done, the `state` of it, and the time that is left.

    Args:
        console: a terminal; anything else has no bar.
        verbose: 0 for no bar.
        name: the first column.
    """

    def __init__(self, console: Console, verbose: int, name: ProgressColumn) -> None:
        state = TextColumn("{task.fields[state]}")
        columns = (name, MofNCompleteColumn(), BarColumn(), state, TimeRemainingColumn())
        show = bool(verbose) and console.is_terminal
        super().__init__(*columns, console=console, transient=True, disable=not show)

    def stop(self) -> None:
        """Takes the bar away, if there is one; else old versions of rich would print a line."""
        if not self.disable:
            super().stop()
