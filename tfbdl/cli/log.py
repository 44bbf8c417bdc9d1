"""``tfbdl log``: a table and a figure of training logs."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tfbdl.arguments import first_line
from tfbdl.cli import values
from tfbdl.cli.errors import NotSaved
from tfbdl.plots.logs import log_curves
from tfbdl.training.log import TrainLog, read_log
from tfbdl.whole_file import replacing

_BLOCKS = "▁▂▃▄▅▆▇█"
_NOT_FINITE = "!"
_MIN_WIDTH = 80  # a narrower table would cut its numbers off
_LARGER_IS_BETTER = ("elbo", "acc")
_EXAMPLE = """\
example:
  tfbdl log results/vae results/bnn/train.log --figure curves.png

For every metric the table shows the first and last epoch, the best value
(largest elbo and acc, smallest of all others) and the curve over the epochs,
where ! is a value that is nan or infinite. "/epoch" is the median of the
seconds, "last lr" the learning rate of the last epoch.
"""


def add_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds ``log`` to the parser."""
    parser = subparsers.add_parser(
        "log",
        help="show and draw training logs",
        description="Compare training runs: a table in the terminal and a figure of the curves.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "paths",
        nargs="+",
        type=values.path,
        metavar="PATH",
        help="a train.log or the folder with one",
    )
    parser.add_argument(
        "--figure",
        type=values.path,
        metavar="FILE",
        help="where to draw, .png, .pdf or .svg (default: train_log.png beside the first log)",
    )
    parser.add_argument("--force", action="store_true", help="replace an existing figure")
    parser.set_defaults(run=_log)


def _log(args: argparse.Namespace) -> int:
    paths = [path / "train.log" if path.is_dir() else path for path in args.paths]
    logs = {name: read_log(path) for name, path in _run_names(paths).items()}
    console = Console(highlight=False)
    console.width = max(console.width, _MIN_WIDTH)
    console.print(_table(logs, console.width))
    figure = args.figure or paths[0].with_name("train_log.png")
    try:
        _draw(logs, figure, args.force)
    except OSError as error:
        raise NotSaved(f"{figure}: cannot write, {error.strerror}; give another --figure") from None
    console.print(f"figure: {figure}", markup=False, soft_wrap=True)
    return 0


def _run_names(paths: Sequence[Path]) -> dict[str, Path]:
    """Names each run by the shortest end of its path that no other run shares."""
    runs = {Path(os.path.abspath(path)): path for path in paths}
    parts = {run: (run.parent if run.name == "train.log" else run).parts for run in runs}

    def name(run: Path) -> str:
        own = parts[run]
        others = [other for key, other in parts.items() if key != run]
        shared = (n for n in range(1, len(own)) if all(own[-n:] != other[-n:] for other in others))
        return str(Path(*own[-next(shared, len(own)) :]))

    return {name(run): path for run, path in runs.items()}


def _table(logs: dict[str, TrainLog], width: int) -> Table:
    """A row for each run; inside it a line for each metric."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=0)
    table.add_column("run", overflow="fold", min_width=8)
    for title in ("epochs", "secs", "/epoch", "last lr"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("metric", overflow="ellipsis")
    for title in ("first", "last", "best"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("curve", no_wrap=True)
    for run, log in logs.items():
        lines = [_metric_cells(name, values, width) for name, values in log.metrics.items()]
        cells = [run, str(len(log.epochs))]
        if lines:
            cells += [f"{log.seconds.sum():.1f}", f"{np.median(log.seconds):.4g}"]
            cells += [f"{log.learning_rates[-1]:g}"]
            cells += ["\n".join(column) for column in zip(*lines, strict=True)]
        table.add_row(*map(Text, cells))
    return table


def _metric_cells(name: str, values: np.ndarray, width: int) -> tuple[str, ...]:
    finite = values[np.isfinite(values)]
    best = finite.max if name in _LARGER_IS_BETTER else finite.min
    numbers = (values[0], values[-1], best() if finite.size else np.nan)
    curve = _sparkline(values, min(8 + width - _MIN_WIDTH, 40))
    return (name, *(f"{number:.4g}" for number in numbers), curve)


def _sparkline(values: np.ndarray, width: int) -> str:
    """Blocks from the smallest to the largest value, at most ``width``; ! is nan or infinite."""
    shown = values[np.linspace(0, len(values) - 1, min(width, len(values))).round().astype(int)]
    finite = shown[np.isfinite(shown)]
    low, span = (finite.min(), np.ptp(finite) or 1.0) if finite.size else (0.0, 1.0)
    heights = np.interp(shown, (low, low + span), (0, len(_BLOCKS) - 1))
    return "".join(
        _BLOCKS[round(height)] if np.isfinite(x) else _NOT_FINITE
        for x, height in zip(shown, heights, strict=True)
    )


def _draw(logs: dict[str, TrainLog], path: Path, replace: bool) -> None:
    """Saves one panel for each metric, with all runs in it."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (slow)

    metrics = list(dict.fromkeys(name for log in logs.values() for name in log.metrics))
    if not metrics:
        raise NotSaved(f"{', '.join(logs)}: no complete epoch, so no figure")
    if path.exists() and not replace:
        raise NotSaved(f"{path}: already exists; add --force or give another --figure")
    columns = min(3, len(metrics))
    rows = -(-len(metrics) // columns)
    figure = Figure(figsize=(4.5 * columns, 3.4 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flat
    for metric, ax in zip(metrics, axes, strict=False):
        log_curves(logs, metric, ax)
    for ax in axes[len(metrics) :]:
        ax.remove()
    try:
        with replacing(path) as file:
            figure.savefig(file, format=path.suffix[1:] or "png", dpi=150)
    except ValueError as error:
        raise NotSaved(f"{path}: {first_line(error)}; give another --figure") from None
