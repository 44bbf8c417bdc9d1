"""Carbon dioxide in the air of Mauna Loa, month by month since 1958."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from tfbdl.data.published import TableError, find, read

FILE = "co2_mm_mlo.txt"
SOURCE = "https://gml.noaa.gov/ccgg/trends/data.html"
COLUMNS = 7
"""Year, month, date in years, mean, interpolated mean, trend, days; newer files have another."""


class CO2(NamedTuple):
    """A series of monthly means, in order.

    Attributes:
        year: float64 (N,), the middle of each month in years: 1958.208 is that of March.
        ppm: float64 (N,), mole fraction of CO2 in dry air, in parts per million; months without
            measurements are interpolated, as in the file.

    """

    year: np.ndarray
    ppm: np.ndarray


def co2(*, directory: str | os.PathLike[str] | None = None) -> CO2:
    """Loads the monthly means of Mauna Loa (NOAA), from March 1958 to the last of the file.

    Args:
        directory: where `co2_mm_mlo.txt` is, directly or in a subfolder `co2`. By default the
            environment variable `TFBDL_DATA` says where. Nothing is downloaded.

    Returns:
        Dates and concentrations; see `CO2`.

    Raises:
        DataError: if the file is missing, or its rows are not months that follow each other.

    """
    path = find((f"co2/{FILE}", FILE), directory, SOURCE)
    text = read(path, SOURCE).decode("latin-1")
    rows = [line.split() for line in text.splitlines()]
    try:
        table = np.array([row[:COLUMNS] for row in rows if row and row[0][0] != "#"], float)
        if not text.endswith("\n") or table.shape[1] < COLUMNS:
            raise ValueError("cut off")
        year, month, date, _, ppm = table.T[:5]
    except (ValueError, IndexError):
        raise _not_published(path) from None
    months = 12 * year + month
    follow = np.array_equal(months, months[0] + np.arange(len(months)))
    middle = np.abs(date - year - (month - 0.5) / 12) < 0.01
    if not (follow and middle.all() and (ppm > 0).all()):
        raise _not_published(path)
    return CO2(date, ppm)


def _not_published(path: os.PathLike[str]) -> TableError:
    return TableError(
        f"{os.fspath(path)} is no table of monthly means with year, month, date, mean and "
        f"interpolated mean; replace it by that of {SOURCE}"
    )
