"""What reads files, and damaged files to give it."""

from __future__ import annotations

import gzip
import hashlib
import io
import resource
import struct
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import keras
import numpy as np

import tfbdl
from tfbdl import data
from tfbdl.cli.model import load_model
from tfbdl.data import DataError, mushroom, uci
from tfbdl.data.idx import read_idx
from tfbdl.data.npz import read_npz
from tfbdl.data.uci import PUBLISHED, Published
from tfbdl.training import checkpoint
from tfbdl.training.log import epoch_header, epoch_line

PIXELS = np.arange(12, dtype=np.uint8).reshape(2, 3, 2)
TABLE = np.arange(10.0).reshape(5, 2)
SECONDS, MEGABYTES = 10.0, 300
"""What a reader may take of a processor and of memory for a file of a few kilobytes."""


class Reader(NamedTuple):
    """A reader of one kind of file.

    sample: a file in good order.
    read: takes the path of a file.
    error: the only exception that it may raise, of one line.
    path: the path of the file, in a folder that is `read`'s own.
    """

    sample: bytes
    read: Callable[[Path], Any]
    error: type[Exception]
    path: str


def check(reader: Reader, content: bytes, *, megabytes_at_most: float = MEGABYTES) -> str:
    """Gives a file to the reader; "read" or "refused".

    Raises:
        AssertionError: if it raises anything but its one error, or takes too long or too much.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / reader.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        before, begun, outcome = _peak(), time.process_time(), "read"
        try:
            reader.read(path)
        except reader.error as error:
            outcome = "refused"
            if "\n" in str(error) or not str(error):
                raise AssertionError(f"{error!r} has not one line") from error
        except Exception as error:
            raise AssertionError(f"{error!r} instead of {reader.error.__name__}") from error
        seconds, megabytes = time.process_time() - begun, _peak() - before
        if seconds > SECONDS or megabytes > megabytes_at_most:
            raise AssertionError(f"{reader.path} took {seconds:.1f} seconds and {megabytes} MB")
        return outcome


def _peak() -> int:
    """The most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def of_zip(members: dict[str, bytes]) -> bytes:
    """A zip archive of these."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def in_zip(content: bytes) -> dict[str, bytes]:
    """The members of a zip archive; none of another file."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def readers() -> dict[str, Reader]:
    """All of them, by what they read."""
    idx = struct.pack(">HBB3I", 0, 8, 3, *PIXELS.shape) + PIXELS.tobytes()
    arrays = io.BytesIO()
    np.savez(arrays, x_train=PIXELS)
    log = "".join(epoch_header(i, 0.001) + epoch_line(i, 0.535, {"elbo": -i}) for i in (1, 2, 3))
    model = keras.Sequential(
        [
            keras.Input((4,)),
            tfbdl.layers.BayesDense(3, num_data=10, seed=1),
            tfbdl.layers.MCDropout(0.3, seed=1),
            keras.layers.Dense(2),
        ]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return {
        "IDX": Reader(
            gzip.compress(idx, mtime=0), lambda path: read_idx(path, (2, 3, 2)), DataError, "a.gz"
        ),
        "npz": Reader(
            arrays.getvalue(),
            lambda path: read_npz(path, {"x_train": (2, 3, 2)}),
            DataError,
            "a.npz",
        ),
        "UCI table": Reader(
            "\n".join(" ".join(map(str, row)) for row in TABLE).encode(),
            lambda path: _uci(path, "data.txt"),
            DataError,
            "made/data/data.txt",
        ),
        "UCI index": Reader(
            b"0\n1\n2\n3\n",
            lambda path: _uci(path, "index_train_0.txt"),
            DataError,
            "made/data/index_train_0.txt",
        ),
        "mushrooms": Reader(
            b"e,b,p\np,x,?\n",
            lambda path: mushroom.mushrooms(path.parent),
            DataError,
            mushroom.FILE,
        ),
        "co2": Reader(
            b"# months\n1958 3 1958.208 -99.99 315.71 314.62 -1\n",
            lambda path: data.co2(directory=path.parent),
            DataError,
            "co2_mm_mlo.txt",
        ),
        "train.log": Reader(log.encode(), tfbdl.read_log, tfbdl.LogError, "train.log"),
        "checkpoint": Reader(
            _saved(lambda path: checkpoint.save(path, model, {"epoch": 3})),
            lambda path: (checkpoint.read_meta(path), checkpoint.restore(path, model)),
            checkpoint.CheckpointError,
            "checkpoint.npz",
        ),
        ".keras": Reader(
            _saved(model.save),
            lambda path: load_model(path, compiled=True),
            ValueError,
            "model.keras",
        ),
    }


def _saved(save: Callable[[Path], Any]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved.keras"
        save(path)
        return path.read_bytes()


def _uci(path: Path, damaged: str) -> Any:
    """The data set around a damaged file."""
    files = {
        "data.txt": "\n".join(" ".join(map(str, row)) for row in TABLE),
        "index_features.txt": "0\n",
        "index_target.txt": "1\n",
        "index_train_0.txt": "0\n1\n2\n3\n",
        "index_test_0.txt": "4\n",
    }
    for name, text in files.items():
        if name != damaged:
            (path.parent / name).write_text(text)
    made = Published("made", 1, hashlib.md5(TABLE.tobytes()).hexdigest(), 1)
    with mock.patch.dict(PUBLISHED, made=made):
        return uci("made", directory=path.parents[2])
