"""Data in files as those of Gal's repository of the UCI regressions."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from tfbdl.data.uci import Published


def write_splits(folder: Path, table: np.ndarray, num_splits: int = 2) -> Published:
    """Writes the files of a set "made", unless they are there; what `tfbdl.data.uci` knows of it.

    Args:
        folder: the folder of all sets.
        table: features, and the target in the last column, shape (N, D + 1).
        num_splits: each has three fifths of the examples for training.
    """
    data = folder / "made" / "data"
    count, last = len(table), table.shape[1] - 1
    columns = {"features": np.arange(last), "target": np.array([last])}
    for split in range(num_splits):
        order = np.random.default_rng(split).permutation(count)
        parts = np.split(order, [count * 3 // 5])
        columns |= {f"train_{split}": parts[0], f"test_{split}": parts[1]}
    if not (data / f"index_test_{num_splits - 1}.txt").exists():
        data.mkdir(parents=True, exist_ok=True)
        np.savetxt(data / "data.txt", table, fmt="%.17g")
        for name, values in columns.items():
            np.savetxt(data / f"index_{name}.txt", values, fmt="%d")
    return Published("made", num_splits, hashlib.md5(table.tobytes()).hexdigest(), last)
