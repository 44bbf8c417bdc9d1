"""Reader of `.npz` archives of unsigned bytes, the format of Keras' copy of MNIST.

`numpy.load` allocates whatever an array's header claims. This reader compares the header with
the expected shape first, and never unpickles.
"""

import math
import os
import zipfile
from collections.abc import Mapping

import numpy as np

from tfbdl.data.errors import DataError


def read_npz(
    path: str | os.PathLike[str], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Reads the named arrays of an `.npz` archive.

    Args:
        path: the archive, compressed or not; arrays that `shapes` does not name are ignored.
        shapes: the shape each array must have, by its name in the archive.

    Returns:
        The uint8 arrays by name.

    Raises:
        DataError: if the archive cannot be read or does not hold exactly those arrays.

    """
    try:
        with zipfile.ZipFile(path) as archive:
            held = sum(member.compress_size for member in archive.infolist())
            if held > os.path.getsize(path):
                raise _Mismatch("has members one over the other")
            return {key: _read_member(archive, key, shape) for key, shape in shapes.items()}
    except _Mismatch as mismatch:
        raise DataError(f"{path} {mismatch}; replace or delete it") from None
    except Exception as error:  # damaged bytes make zipfile, zlib and numpy raise nearly anything
        raise DataError(
            f"{path} is not a readable .npz archive ({type(error).__name__}); replace or delete it"
        ) from None


class _Mismatch(Exception):
    """An intact archive with other contents than expected."""


def _read_member(archive: zipfile.ZipFile, key: str, shape: tuple[int, ...]) -> np.ndarray:
    if f"{key}.npy" not in archive.namelist():
        raise _Mismatch(f"has no array {key!r}")
    if archive.getinfo(f"{key}.npy").compress_type not in (
        zipfile.ZIP_STORED,
        zipfile.ZIP_DEFLATED,
    ):
        raise _Mismatch(f"holds {key} compressed as numpy never does")  # zipfile inflates it whole
    with archive.open(f"{key}.npy") as member:
        if np.lib.format.read_magic(member) != (1, 0):
            raise _Mismatch(f"holds {key} in another .npy version than 1.0")
        actual, is_fortran_order, dtype = np.lib.format.read_array_header_1_0(member)
        if dtype != np.uint8 or actual != shape:
            raise _Mismatch(f"holds {key} as {dtype} of shape {actual}, not uint8 of shape {shape}")
        payload = member.read(math.prod(shape) + 1)
    return np.frombuffer(payload, np.uint8).reshape(shape, order="F" if is_fortran_order else "C")
