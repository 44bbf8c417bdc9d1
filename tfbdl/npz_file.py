"""Files of arrays, `.npz`: those of this package with the number of their format, and any."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from tfbdl.whole_file import write_whole

T = TypeVar("T")

FORMAT = 1
"""The number of the format that this version writes; newer versions have larger ones."""


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Writes a file of arrays and `FORMAT`, which is whole or not there.

    Raises:
        OSError: if it cannot be written.
    """
    write_whole(path, lambda file: np.savez(file, format=np.array(FORMAT), **arrays))


def read_arrays(
    path: str | os.PathLike[str],
    extract: Callable[[np.lib.npyio.NpzFile], T],
    content: bytes | None = None,
) -> T:
    """Reads what `extract` takes of a file of `write_arrays`; arguments as in `read_npz`.

    Raises:
        ValueError: as `read_npz`, and for a format of a newer version.
    """

    def known(file: np.lib.npyio.NpzFile) -> T:
        check_format(int(numbers(file, "format")))
        return extract(file)

    return read_npz(path, known, content)


def check_format(number: int) -> None:
    """Raises ValueError for the format of a newer version."""
    if number > FORMAT:
        raise ValueError(
            f"format {number} is of a newer tfbdl, and this one reads up to {FORMAT}; update tfbdl"
        )


def read_npz(
    path: str | os.PathLike[str],
    extract: Callable[[np.lib.npyio.NpzFile], T],
    content: bytes | None = None,
    *,
    compressed: bool = False,
) -> T:
    """Reads what `extract` takes of an `.npz` file, in memory that the size of the file bounds.

    Args:
        path: the path of the file.
        extract: may raise any exception, which counts as damage.
        content: the content of the file, if it is not to be read from `path`.
        compressed: whether `numpy.savez_compressed` may have written it, so that a hundred times
            the size of the file, and 256 MB for small ones, are the bound.

    Raises:
        ValueError: if the file is missing, damaged or a bomb; one line says how.
    """
    try:
        with open(path, "rb") if content is None else io.BytesIO(content) as raw:
            _check_archive(raw, compressed)
            with np.load(raw, allow_pickle=False) as file:
                return extract(file)
    except Exception as error:  # damaged bytes make zipfile, zlib and numpy raise nearly anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(reason) from None


def _check_archive(raw: IO[bytes], compressed: bool) -> None:
    """Raises ValueError where the members claim more than such a file can hold."""
    size = raw.seek(0, os.SEEK_END)
    known = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) if compressed else (zipfile.ZIP_STORED,)
    with zipfile.ZipFile(raw) as archive:
        members = archive.infolist()
    if any(member.compress_type not in known for member in members):
        writer = "numpy.savez_compressed" if compressed else "numpy.savez"
        raise ValueError(f"it is compressed as {writer} never does")
    most = max(100 * size, 2**28) if compressed else size
    claimed = sum(member.file_size for member in members)
    if claimed > most:
        raise ValueError(f"it claims to hold {claimed} bytes, in a file of {size}")
    raw.seek(0)


def numbers(file: Mapping[str, Any], name: str) -> np.ndarray:
    """An array of an `.npz` file; TypeError if it is none of numbers, or bytes, as NumPy gives."""
    array = file[name]
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
        raise TypeError(f"{name} is no array of numbers")
    return array
