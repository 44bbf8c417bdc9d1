"""The summary of a posterior over weights: a table with a row for each tensor."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class WeightRow:
    """One weight tensor.

    Attributes:
        path: the path of the tensor, as "dense/kernel".
        shape: the shape of the tensor.
        mean: the average over the tensor's elements of their posterior means.
        size: the root mean square of the same posterior means, how large the weights are.
        stddev: the median of the standard deviations of those elements that have a posterior; None
            where none has.
    """

    path: str
    shape: tuple[int, ...]
    mean: float
    size: float
    stddev: float | None


@dataclass(frozen=True)
class WeightTable:
    """The weights of a posterior; printed, a table.

    Attributes:
        title: the name of the posterior.
        rows: one for each weight tensor.
        remarks: further remarks, a line each.
    """

    title: str
    rows: tuple[WeightRow, ...]
    remarks: tuple[str, ...]

    @classmethod
    def of(
        cls,
        title: str,
        shapes: Mapping[str, tuple[int, ...]],
        mean: np.ndarray,
        stddev: np.ndarray | None,
        remarks: Sequence[str] = (),
    ) -> WeightTable:
        """The table of weights that lie in one vector.

        Args:
            title: the name of the posterior.
            shapes: the shapes of the tensors, by name, in their order.
            mean: shape (D,).
            stddev: shape (D,), NaN of weights without a posterior; None where there are none.
            remarks: a line each.
        """
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])[:-1]
        means = np.split(mean, ends)
        stddevs = [None] * len(means) if stddev is None else map(_median, np.split(stddev, ends))
        rows = [
            WeightRow(
                path,
                tuple(shape),
                float(np.mean(m)),
                float(np.sqrt(np.mean(np.square(m)))),
                s,
            )
            for (path, shape), m, s in zip(shapes.items(), means, stddevs, strict=True)
        ]
        return cls(title, tuple(rows), tuple(remarks))

    @classmethod
    def of_several(cls, title: str, tables: Sequence[WeightTable]) -> WeightTable:
        """The table of several posteriors over the same weights: means over all of them.

        The median of the standard deviations is the mean of their medians.
        """
        rows = []
        for same in zip(*(table.rows for table in tables), strict=True):
            spreads = [row.stddev for row in same if row.stddev is not None]
            rows.append(
                WeightRow(
                    same[0].path,
                    same[0].shape,
                    float(np.mean([row.mean for row in same])),
                    float(np.sqrt(np.mean(np.square([row.size for row in same])))),
                    float(np.mean(spreads)) if len(spreads) == len(same) else None,
                )
            )
        remarks = [f"{k}: {remark}" for k, table in enumerate(tables) for remark in table.remarks]
        return cls(title, tuple(rows), tuple(remarks))

    def __str__(self) -> str:
        table = Table(box=None, pad_edge=False, header_style="")
        has_stddev = any(row.stddev is not None for row in self.rows)
        columns = ["weight", "shape", "mean", "rms of means", *["median sd"] * has_stddev]
        for i, column in enumerate(columns):
            table.add_column(column, justify="left" if i == 0 else "right", no_wrap=True)
        for row in self.rows:
            numbers = [row.mean, row.size, *([row.stddev] if has_stddev else [])]
            cells = ("" if v is None else f"{v:.3g}" for v in numbers)
            table.add_row(row.path, " x ".join(map(str, row.shape)) or "1", *cells)
        console = Console(width=120, color_system=None)
        with console.capture() as capture:
            console.print(table)
        lines = [line.rstrip() for line in capture.get().splitlines()]
        title = textwrap.fill(self.title, 120, subsequent_indent="    ")
        return "\n".join([title, *lines, *self.remarks])

    __repr__ = __str__


def _median(stddev: np.ndarray) -> float | None:
    known = stddev[~np.isnan(stddev)]
    return float(np.median(known)) if len(known) else None
