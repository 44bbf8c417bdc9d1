"""The ``tfbdl`` command line: every subcommand adds itself to one parser."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tfbdl.training.log import TrainLog, read_log

if TYPE_CHECKING:
    from rich.table import Table

_BLOCKS = "▁▂▃▄▅▆▇█"
_LARGER_IS_BETTER = ("elbo", "acc")
_EXAMPLE = """\
example:
  tfbdl log results/vae results/bnn/train.log --figure curves.png

For every metric the table shows the first and last epoch, the best value
(largest elbo and acc, smallest of all others) and the curve over the epochs.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit code.

    Args:
        argv: The arguments; None takes those of the process.

    Returns:
        0, or 1 when a result could not be saved, or 2 for wrong arguments or unreadable files.
        An error is one line on stderr.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without unicode blocks
    parser = _Parser(prog="tfbdl", description="Bayesian deep learning for TensorFlow and Keras.")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    add_log_command(subparsers)
    args = parser.parse_args(argv)
    try:
        return args.run(args)
    except (OSError, ValueError) as error:
        return _fail(error, 2)


def add_log_command(subparsers: argparse._SubParsersAction[_Parser]) -> None:
    """Add ``log``: a table and a figure of training logs."""
    parser = subparsers.add_parser(
        "log",
        help="show and draw training logs",
        description="Compare training runs: a table in the terminal and a figure of the curves.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help="a train.log or the folder with one"
    )
    parser.add_argument(
        "--figure",
        type=Path,
        metavar="FILE",
        help="where to draw, .png, .pdf or .svg (default: train_log.png beside the first log)",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing figure")
    parser.set_defaults(run=_log)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"tfbdl: error: {message}; see {self.prog} --help\n")


def _fail(error: Exception, code: int) -> int:
    print("tfbdl: error:", *str(error).split(), file=sys.stderr)
    return code


def _log(args: argparse.Namespace) -> int:
    from rich.console import Console

    paths = [path / "train.log" if path.is_dir() else path for path in args.paths]
    logs = {name: read_log(path) for name, path in _run_names(paths).items()}
    console = Console(highlight=False)
    console.print(_table(logs, console.width))
    figure = args.figure or paths[0].with_name("train_log.png")
    try:
        _draw(logs, figure, args.force)
    except (OSError, ValueError) as error:
        return _fail(error, 1)
    console.print(f"figure: {figure}", markup=False, soft_wrap=True)
    return 0


def _run_names(paths: Sequence[Path]) -> dict[str, Path]:
    """Name each run by the shortest end of its path that no other run shares."""
    runs = {path.resolve(): path for path in paths}
    parts = {
        run: (run.parent if run.name == "train.log" else run).parts for run in runs
    }

    def name(run: Path) -> str:
        own = parts[run]
        others = [other for key, other in parts.items() if key != run]
        shared = (n for n in range(1, len(own)) if all(own[-n:] != other[-n:] for other in others))
        return str(Path(*own[-next(shared, len(own)) :]))

    return {name(run): path for run, path in runs.items()}


def _table(logs: dict[str, TrainLog], width: int) -> Table:
    """A row for each run; inside it a line for each metric."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1), collapse_padding=True, pad_edge=False, leading=1)
    table.add_column("run", overflow="fold")
    for title in ("epochs", "total s", "s/epoch", "rate"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("metric", no_wrap=True)
    for title in ("first", "last", "best"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("curve", no_wrap=True)
    for run, log in logs.items():
        lines = [_metric_line(name, values, width) for name, values in log.metrics.items()]
    return table
