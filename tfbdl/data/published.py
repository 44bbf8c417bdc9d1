"""Folders of published tables of data; nothing is downloaded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tfbdl import arguments
from tfbdl.data.errors import DataError

MAX_BYTES = 2**24
"""More than any published table has; that of the proteins has 3.5 MB."""


class TableError(DataError):
    """A file is missing or not the published one; no other data set can stand in for it."""

    __str__ = ValueError.__str__


def read(path: Path, source: str) -> bytes:
    """The bytes of a published file.

    Raises:
        TableError: if it cannot be read, or is larger than any of them.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise TableError(
            f"{path} cannot be read ({error.strerror}); put that of {source} there"
        ) from None
    if len(content) > MAX_BYTES:
        raise TableError(
            f"{path} is not the published file: it is larger; put that of {source} there"
        )
    return content


def find(places: Sequence[str], directory: str | os.PathLike[str] | None, source: str) -> Path:
    """The first of the files that is there, in `directory`, by default that of `TFBDL_DATA`.

    Args:
        places: paths inside the directory, the shortest last, which messages show.
        directory: the folder to look in.
        source: an address to have the file from.

    Raises:
        TableError: if there is none.
    """
    name, said = places[-1], "directory"
    directory = arguments.optional(arguments.path, "directory", directory)
    if directory is None:
        said, directory = "TFBDL_DATA", os.environ.get("TFBDL_DATA") or None
    if directory is None:
        raise TableError(
            f"TFBDL_DATA is not set: make it the folder that holds {name}, of {source}"
        )
    root = Path(os.path.expanduser(directory))
    for place in places:
        if (root / place).is_file():
            return root / place
    raise TableError(f"{said}={os.fspath(directory)!r} has no {name}: put that of {source} there")
