"""Files that are whole or not there, whenever the process ends, and how they are read again."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

T = TypeVar("T")


def write_whole(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Calls `write` with a file that becomes `path` when it is done and on the disk.

    A kill at any moment leaves the file before or the file after.

    Raises:
        OSError: if it cannot be written.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(
            error.errno or errno.EIO,
            f"cannot be written, {reason}; what was there stays",
            str(path),
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def read_npz(
    path: str | os.PathLike[str],
    extract: Callable[[np.lib.npyio.NpzFile], T],
    content: bytes | None = None,
) -> T:
    """What `extract` takes of an `.npz` file.

    Args:
        path: of the file.
        extract: may raise any exception, which counts as damage.
        content: of the file, if it is not to be read from `path`.

    Raises:
        ValueError: if the file is missing or damaged; one line says how.
    """
    try:
        with (
            open(path, "rb") if content is None else io.BytesIO(content) as raw,
            np.load(raw, allow_pickle=False) as file,
        ):
            return extract(file)
    except Exception as error:  # damaged bytes make zipfile, zlib and numpy raise nearly anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(reason) from None


def numbers(file: Mapping[str, Any], name: str) -> np.ndarray:
    """An array of an `.npz` file; TypeError if it is none of numbers, or bytes, as NumPy gives."""
    array = file[name]
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
        raise TypeError(f"{name} is no array of numbers")
    return array
