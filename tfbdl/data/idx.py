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
    dimensions), then one big-endian 32-bit size per dimension, then the bytes themselves. The
    header is compared with `shape` before anything is read, so a damaged or hostile file never
    makes this function use more memory than `shape` needs.

    Args:
        path: the `.gz` file.
        shape: the sizes the header must state.

    Returns:
        A read-only uint8 array of shape `shape`.

    Raises:
        DataError: if the file cannot be read or decompressed, or does not hold exactly that.

    """
    size = math.prod(shape)
    try:
        most = 2 * size + _OVERHEAD
        if os.path.getsize(path) > most:
            raise DataError(
                f"{path} has more than the {most} bytes that such a file can have; replace or "
                "delete it"
            )
        with gzip.open(path, "rb") as file:
            header = file.read(4 + 4 * len(shape))
            _check_header(path, header, shape)
            payload = file.read(size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path} is not a readable gzip file ({type(error).__name__}); replace or delete it"
        ) from None
    if len(payload) != size:
        held = f"{len(payload)} bytes" if len(payload) < size else "more bytes"
        raise DataError(f"{path} holds {held} where {size} are due; replace or delete it")
    return np.frombuffer(payload, np.uint8).reshape(shape)


def _check_header(path: str | os.PathLike[str], header: bytes, shape: tuple[int, ...]) -> None:
    magic = struct.pack(">HBB", 0, _UNSIGNED_BYTE, len(shape))
    if header[:4] != magic:
        raise DataError(
            f"{path} starts with 0x{header[:4].hex()}, not the IDX magic number "
            f"0x{magic.hex()}; replace or delete it"
        )
    if len(header) < 4 + 4 * len(shape):
        raise DataError(f"{path} ends within its IDX header; replace or delete it")
    sizes = struct.unpack(f">{len(shape)}I", header[4:])
    if sizes != shape:
        raise DataError(f"{path} claims shape {sizes}, not {shape}; replace or delete it")
