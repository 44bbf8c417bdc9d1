"""The UCI Mushroom data set: descriptions of 23 species of gilled mushrooms, edible or not."""

import hashlib
import os
from typing import NamedTuple

import numpy as np

from tfbdl.data.published import TableError, find, read

FILE = "agaricus-lepiota.data"
SOURCE = "https://archive.ics.uci.edu/dataset/73/mushroom"
MD5 = "9aaf236b8e254a8107e595473aec9cab"
_MOST_BYTES = 1_000_000
"""The size of a file whose lines may end in any way."""


class Mushrooms(NamedTuple):
    """Descriptions of 8,124 mushrooms, and whether they can be eaten.

    Attributes:
        x: float32 (8124, 117), each of the 22 attributes as one of K: K is the number of values it
            takes in the file, in alphabetical order; a missing stalk-root, "?", is one of them.
        edible: bool (8124,); 4,208 are. The others are poisonous, or not recommended.

    """

    x: np.ndarray
    edible: np.ndarray


def mushrooms(directory: str | os.PathLike[str] | None = None) -> Mushrooms:
    """Loads the mushrooms, in the order of the file.

    Args:
        directory: where `agaricus-lepiota.data` is, directly or in a subfolder `mushroom`. By
            default the environment variable `TFBDL_DATA` says where. Nothing is downloaded.

    Returns:
        Attributes and edibility; see `Mushrooms`.

    Raises:
        DataError: if the file is missing or not the published one.

    """
    path = find((f"mushroom/{FILE}", FILE), directory, SOURCE)
    if path.is_file() and path.stat().st_size > _MOST_BYTES:
        raise TableError(
            f"{path} has {path.stat().st_size:,} bytes and the published file 373,704; replace it "
            f"by that of {SOURCE}"
        )
    rows = read(path, SOURCE).split()
    digest = hashlib.md5(b"\n".join(rows), usedforsecurity=False).hexdigest()
    if digest != MD5:
        raise TableError(
            f"{path} is not the published file: the md5 of its lines is {digest}, not {MD5}; "
            f"replace it by that of {SOURCE}"
        )
    return encode(np.array([row.decode().split(",") for row in rows]))


def encode(table: np.ndarray) -> Mushrooms:
    """Turns letters into numbers.

    Args:
        table: (N, 1 + attributes), the class "e" or "p", then the values of the attributes.

    Returns:
        Attributes as one of K each, and edibility.

    """
    one_of_k = [column[:, None] == np.unique(column) for column in table.T[1:]]
    return Mushrooms(np.concatenate(one_of_k, axis=1).astype(np.float32), table[:, 0] == "e")
