"""``tfbdl summary``: the posterior of each layer of a saved model."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tfbdl.cli import values
from tfbdl.cli.model import load_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfbdl.models import WeightEnsemble
    from tfbdl.posteriors import Posterior

_EXAMPLE = """\
example:
  tfbdl summary model.keras

For each posterior: the number of weights, root mean squares of their means and standard
deviations, the quartiles of their signal to noise |mean| / sd in decibels (below 0 a weight is
mostly noise), and the KL to the prior in nats. For an ensemble: the same over its members. For
dropout: the keep probabilities.
"""


def add_command(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds ``summary`` to the parser."""
    parser = subparsers.add_parser(
        "summary",
        help="show what a model has learned of its weights",
        description="Show the posterior of a saved model, layer by layer.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "model", type=values.path, metavar="MODEL.keras", help="what model.save wrote"
    )
    parser.set_defaults(run=_summary)


def _summary(args: argparse.Namespace) -> int:
    model = load_model(args.model, compiled=False)
    from tfbdl.keras_private import walk  # noqa: PLC0415 (slow)
    from tfbdl.layers import ConcreteDropout, MCDropout  # noqa: PLC0415
    from tfbdl.models import WeightEnsemble  # noqa: PLC0415
    from tfbdl.posteriors import Posterior  # noqa: PLC0415

    weights = Table(box=SIMPLE_HEAD, show_edge=False)
    weights.add_column("posterior", overflow="fold")
    for column in ("weights", "mean", "sd", "signal to noise (dB)", "KL (nats)"):
        weights.add_column(column, justify="right", no_wrap=True)
    dropout = Table(box=SIMPLE_HEAD, show_edge=False)
    for column in ("dropout", "keep probability"):
        dropout.add_column(column)
    for layer in walk(model):
        if isinstance(layer, Posterior) and layer.built:
            weights.add_row(*_of_posterior(layer))
        elif isinstance(layer, WeightEnsemble):
            for row in _of_ensemble(layer):
                weights.add_row(*row)
        elif isinstance(layer, ConcreteDropout):
            keep = np.ravel(layer.keep_prob)
            limits = f" ({keep.min():.3f} to {keep.max():.3f})" if keep.size > 1 else ""
            dropout.add_row(layer.name, f"{keep.mean():.3f}{limits}, learned")
        elif isinstance(layer, MCDropout):
            dropout.add_row(layer.name, f"{1.0 - layer.rate:.3f}")
    if not weights.row_count and not dropout.row_count:
        raise ValueError(
            f"{args.model} has no random weights and no learned dropout; keras' model.summary() "
            "shows it"
        )
    console = Console(highlight=False)
    for table in (weights, dropout):
        if table.row_count:
            console.print(table)
    return 0


def _of_posterior(posterior: Posterior) -> tuple[str, ...]:
    from tfbdl import random  # noqa: PLC0415 (slow)

    mean, stddev = np.ravel(posterior.mean), np.ravel(posterior.stddev)
    kl = float(posterior.kl(random.key_of(0, "summary")))
    return _row(posterior.path, mean, stddev, f"{kl:.4g}")


def _of_ensemble(ensemble: WeightEnsemble) -> Iterator[tuple[str, ...]]:
    members, start = np.asarray(ensemble.members, np.float64), 0
    for path, shape in ensemble.shapes.items():
        part = members[:, start : start + int(np.prod(shape))]
        start += part.shape[1]
        yield _row(path, part.mean(axis=0), part.std(axis=0), "unknown")


def _row(path: str, mean: np.ndarray, stddev: np.ndarray, kl: str) -> tuple[str, ...]:
    with np.errstate(divide="ignore"):
        decibels = 10.0 * np.log10(np.abs(mean) / np.maximum(stddev, 1e-30) + 1e-30)
    low, middle, high = np.percentile(decibels, [25, 50, 75])
    rms = [f"{np.sqrt(np.mean(np.square(values))):.4g}" for values in (mean, stddev)]
    noise = f"{low:.1f} {middle:.1f} {high:.1f}" if stddev.any() else "exact"
    if np.isnan(stddev).any():  # posterior="prior" has none
        rms[1] = noise = "unknown"
    return ("/".join(path.split("/")[-2:]), f"{mean.size:,}", *rms, noise, kl)
