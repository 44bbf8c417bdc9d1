"""The summary of a run of chains, as arrays and as a table."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from tfbdl.inference.mcmc.diagnostics import TAILS, bfmi, ess, rhat
from tfbdl.inference.mcmc.stepping import Draws
from tfbdl.inference.weight_table import WeightTable

ROWS = 50
"""The most numbers that are shown one by one."""


@dataclass(frozen=True)
class Quantity:
    """Moments and diagnostics of one quantity of any shape; every field has this shape."""

    mean: np.ndarray
    stddev: np.ndarray
    low: np.ndarray
    high: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    rhat: np.ndarray

    @classmethod
    def of(cls, samples: np.ndarray) -> Quantity:
        """The summary of samples of shape (S, C, ...).

        Raises:
            ValueError: if S < 4.
        """
        samples = np.asarray(samples, np.float64)
        low, high = np.quantile(samples, TAILS, axis=(0, 1))
        return cls(
            samples.mean(axis=(0, 1)),
            samples.std(axis=(0, 1), ddof=1),
            low,
            high,
            ess(samples, "bulk"),
            ess(samples, "tail"),
            rhat(samples),
        )


@dataclass(frozen=True)
class ChainSummary:
    """The diagnostics of chains; printed, a table.

    Attributes:
        title: the name of the posterior.
        quantities: by name: each weight tensor of the model, and `"f(x)"` if x was given. Means,
            standard deviations, 5 % and 95 % quantiles, effective sample sizes, R-hat.
        accept_prob: mean acceptance of each chain, shape (C,).
        num_divergent: the number of samples with a divergent trajectory since the sample before.
        num_samples: S C.
        num_gradients: the number of gradients of all chains, warm-up not counted.
        step_size: the step size of each chain, shape (C,).
        bfmi: the E-BFMI of each chain, shape (C,), as `bfmi` says; NaN of kernels without momenta.
    """

    title: str
    quantities: dict[str, Quantity]
    accept_prob: np.ndarray
    num_divergent: int
    num_samples: int
    num_gradients: int
    step_size: np.ndarray
    bfmi: np.ndarray

    @classmethod
    def of(
        cls, title: str, samples: Mapping[str, np.ndarray], draws: Draws, step_size: np.ndarray
    ) -> ChainSummary:
        """Sums up samples, (S, C, ...) by name, that came with these draws."""
        return cls(
            title,
            {name: Quantity.of(values) for name, values in samples.items()},
            accept_prob=np.mean(draws.accept_prob, axis=0),
            num_divergent=int(np.sum(draws.diverging)),
            num_samples=draws.log_prob.size,
            num_gradients=int(np.sum(draws.num_gradients, dtype=np.int64)),
            step_size=step_size,
            bfmi=bfmi(draws.energy),
        )

    def __str__(self) -> str:
        size = sum(q.mean.size for q in self.quantities.values())
        table = _element_table(self) if size <= ROWS else _tensor_table(self)
        console = Console(width=120, color_system=None)
        with console.capture() as capture:
            console.print(table)
        lines = [line.rstrip() for line in capture.get().splitlines()]
        title = textwrap.fill(self.title, 120, subsequent_indent="    ")
        return "\n".join([title, *lines, *_remarks(self)])

    __repr__ = __str__

    def weight_table(self) -> WeightTable:
        """Moments by weight tensor, as other methods sum up, with the diagnostics as remarks."""
        shapes = {name: q.mean.shape for name, q in self.quantities.items()}
        mean, stddev = (
            np.concatenate([np.ravel(getattr(q, field)) for q in self.quantities.values()])
            for field in ("mean", "stddev")
        )
        return WeightTable.of(self.title, shapes, mean, stddev, _remarks(self))


def _element_table(summary: ChainSummary) -> Table:
    table = _table("mean", "sd", "5 %", "95 %", "ess bulk", "ess tail", "r hat")
    for name, q in summary.quantities.items():
        for index in np.ndindex(q.mean.shape):
            values = (q.mean, q.stddev, q.low, q.high)
            sizes = (q.ess_bulk, q.ess_tail)
            table.add_row(
                name + (f"[{','.join(map(str, index))}]" if index else ""),
                *(f"{value[index]:.3g}" for value in values),
                *(f"{size[index]:.0f}" for size in sizes),
                f"{q.rhat[index]:.3f}",
            )
    return table


def _tensor_table(summary: ChainSummary) -> Table:
    table = _table("ess bulk: least", "median", "ess tail: least", "r hat: median", "most")
    for name, q in summary.quantities.items():
        sizes = (np.min(q.ess_bulk), np.median(q.ess_bulk), np.min(q.ess_tail))
        table.add_row(
            f"{name} {q.mean.shape}",
            *(f"{size:.0f}" for size in sizes),
            f"{np.median(q.rhat):.3f}",
            f"{np.max(q.rhat):.3f}",
        )
    return table


def _table(*columns: str) -> Table:
    table = Table("", box=None, pad_edge=False, header_style="")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _remarks(summary: ChainSummary) -> list[str]:
    def per_chain(values: np.ndarray) -> str:
        return ", ".join(f"{value:.3g}" for value in values[:8]) + (" ..." * (len(values) > 8))

    remarks = [
        f"acceptance {per_chain(summary.accept_prob)}; step size {per_chain(summary.step_size)}",
        f"{summary.num_gradients:,} gradients",
    ]
    if np.isfinite(summary.bfmi).any():
        slow = ": below 0.3 tails are explored slowly" if np.nanmin(summary.bfmi) < 0.3 else ""
        remarks.append(f"E-BFMI {per_chain(summary.bfmi)}{slow}")
    if summary.num_divergent:
        remarks.append(
            f"{summary.num_divergent} of {summary.num_samples} samples diverged: take smaller "
            "steps, by a target_accept nearer to 1"
        )
    return remarks
