"""Regressions in text files: a table, the roles of its columns, and the splits of its rows."""

import io
import os
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tfbdl import arguments
from tfbdl.arguments import integer, optional
from tfbdl.data.published import TableError, read


class RegressionData(NamedTuple):
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


def regression(
    folder: str | os.PathLike[str],
    split: int = 0,
    *,
    splits: str | os.PathLike[str] | None = None,
) -> RegressionData:
    """Loads a split of any regression that is kept as the UCI ones are.

    Args:
        folder: holds `data.txt`, a table of numbers with a row a line, `index_features.txt` and
            `index_target.txt`, the numbers of its columns, from 0.
        split: K of the files `index_train_K.txt` and `index_test_K.txt`, the numbers of the rows
            to train and to test with, which must be each row once.
        splits: the folder of the files of splits; by default `folder`.

    Returns:
        Features and targets to train and to test with, not scaled; see `RegressionData`.

    Raises:
        ValueError: if `split` is no number of a split.
        DataError: if a file is missing, or does not hold what it should.

    """
    folder = arguments.path("folder", folder)
    where = optional(arguments.path, "splits", splits) or folder
    split = integer("split", split, least=0)
    known = regression_splits(where)
    if known and split not in known:
        raise TableError(f"split={split} has no index_train_{split}.txt in {where}; it has {known}")
    source = "your data set"
    return split_of(numbers(folder / "data.txt", source), folder, where, split, (source, source))


def regression_splits(folder: str | os.PathLike[str]) -> list[int]:
    """The numbers of the splits whose files are in a folder, in order.

    Args:
        folder: holds `index_train_K.txt` for each of them.

    Returns:
        The K; none if there is no such file.

    """
    names = (path.stem for path in arguments.path("folder", folder).glob("index_train_*.txt"))
    ends = (name.removeprefix("index_train_") for name in names)
    return sorted(int(end) for end in ends if end.isdecimal())


def split_of(
    table: np.ndarray, folder: Path, splits: Path, split: int, sources: tuple[str, str]
) -> RegressionData:
    """The rows and columns of a table that the index files name.

    Args:
        table: the numbers of `data.txt`.
        folder: the folder of the numbers of columns.
        splits: the folder of the numbers of rows.
        split: K.
        sources: the origins of the two folders, for messages.

    Raises:
        DataError: if a file is missing, or does not hold what it should.
    """
    rows, columns = table.shape
    features, target = (
        _indices(folder / f"index_{part}.txt", columns, sources[0])
        for part in ("features", "target")
    )
    train, test = (
        _indices(splits / f"index_{part}_{split}.txt", rows, sources[1])
        for part in ("train", "test")
    )
    if not np.array_equal(np.sort(np.concatenate([train, test])), np.arange(rows)):
        raise TableError(
            f"split {split} in {splits} does not hold each of the {rows} rows once; "
            f"replace its files by those of {sources[1]}"
        )
    x, y = table[:, features], table[:, target]
    return RegressionData(x[train], y[train], x[test], y[test])


def numbers(path: Path, source: str) -> np.ndarray:
    """A text file of numbers, one row a line."""
    content = io.BytesIO(read(path, source))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a file without numbers raises
            return np.loadtxt(content, ndmin=2)
    except (ValueError, UserWarning):
        raise TableError(
            f"{path} cannot be read as a table of numbers; put that of {source} there"
        ) from None


def _indices(path: Path, bound: int, source: str) -> np.ndarray:
    """A text file of integers from 0 to `bound` - 1."""
    values = numbers(path, source).ravel()
    if not np.isin(values, np.arange(bound)).all():
        raise TableError(
            f"{path} has numbers that are none of 0 to {bound - 1}; put that of {source} there"
        )
    return values.astype(int)
