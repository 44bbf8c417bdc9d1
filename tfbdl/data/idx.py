"""Reader of IDX, the format of MNIST and Fashion-MNIST (gzip-compressed)."""

import gzip
import math
import os
import struct
import zlib

import numpy as np

from tfbdl.data.errors import DataError

_UNSIGNED_BYTE = 0x08
_OVERHEAD = 2**16
"""Bytes of headers and blocks that gzip may add to incompressible data."""


def read_idx(path: str | os.PathLike[str], shape: tuple[int, ...]) -> np.ndarray:
    """Reads one gzip-compressed IDX file of unsigned bytes.

    The file starts with a magic number (two zero bytes, the type 0x08, the number of
    dimensions), then one big-endian 32-bit size per dimension, then the bytes themselves. No more
    is read than `shape` has, so that a damaged or hostile file takes no more memory than that.

    Args:
        path: the `.gz` file.
        shape: the sizes the header must state.

    Returns:
        A read-only uint8 array of shape `shape`.

    Raises:
        DataError: if the file cannot be read or decompressed, or does not hold exactly that.
    """
    size, expected = math.prod(shape), struct.pack(">HBB", 0, _UNSIGNED_BYTE, len(shape))
    expected += struct.pack(f">{len(shape)}I", *shape)
    try:
        most = 2 * size + _OVERHEAD
        if os.path.getsize(path) > most:
            raise DataError(
                f"{path} has more than the {most} bytes that such a file can have; replace or "
                "delete it"
            )
        with gzip.open(path, "rb") as file:
            header, payload = file.read(len(expected)), file.read(size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path} is not a readable gzip file ({type(error).__name__}); replace or delete it"
        ) from None
    if header != expected:
        raise DataError(
            f"{path} begins with {header.hex() or 'nothing'}, where IDX of bytes in shape {shape} "
            f"begins with {expected.hex()}; replace or delete it"
        )
    if len(payload) != size:
        held = f"{len(payload)} bytes" if len(payload) < size else "more bytes"
        raise DataError(f"{path} holds {held} where {size} are due; replace or delete it")
    return np.frombuffer(payload, np.uint8).reshape(shape)
