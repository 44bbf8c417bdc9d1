"""Checks of the claims in a `.keras` file, before Keras believes them."""

from __future__ import annotations

import zipfile
from pathlib import Path, PurePosixPath

WEIGHTS = "model.weights.h5"
_SMALL = 2**26
"""Bytes that any file may unfold to; larger ones to a hundred times their size."""


class Unbelievable(ValueError):
    """A file claims more than it can hold, or names paths outside of it."""


def check_archive(path: Path) -> None:
    """Raises Unbelievable for a zip file that loading must not unfold; damage Keras finds."""
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename: member.file_size for member in archive.infolist()}
            _check_members(members, size)
            weights = _size_of_weights(archive) if WEIGHTS in members else 0
    except Unbelievable:
        raise
    except Exception:  # damaged bytes make zipfile and h5py raise nearly anything
        return
    if weights > members.get(WEIGHTS, 0):
        raise Unbelievable(f"its weights claim {weights} bytes, in a file of {size}")


def _check_members(members: dict[str, int], size: int) -> None:
    for name in members:
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise Unbelievable(f"it has the member {name!r}, which lies outside of it")
    if sum(members.values()) > max(100 * size, _SMALL):
        raise Unbelievable(f"it claims to hold {sum(members.values())} bytes, in a file of {size}")


def _size_of_weights(archive: zipfile.ZipFile) -> int:
    """Bytes of all arrays in the file of weights, which says their shapes beside the numbers."""
    import h5py  # noqa: PLC0415 (slow)

    sizes: list[int] = []

    def add(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            sizes.append(item.nbytes)

    with archive.open(WEIGHTS) as raw, h5py.File(raw, "r") as file:
        file.visititems(add)
    return sum(sizes)
