"""Small stand-ins for the published files, written byte by byte."""

import contextlib
import gzip
import hashlib
import os
import struct
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np

from tfbdl.data import DataError, mnist_files


class TemporaryFolderTestCase(unittest.TestCase):
    def setUp(self) -> None:
        super().setUp()
        contexts = contextlib.ExitStack()
        self.addCleanup(contexts.close)
        self.enter = contexts.enter_context
        self.folder = Path(self.enter(tempfile.TemporaryDirectory()))

    @contextlib.contextmanager
    def assert_data_error(self, *fragments: str) -> Iterator[None]:
        with self.assertRaises(DataError) as caught:
            yield
        assert_tells_what_to_do(caught.exception)
        for fragment in fragments:
            self.assertIn(fragment, str(caught.exception))


def assert_tells_what_to_do(error: DataError) -> None:
    assert "\n" not in str(error)
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None


def idx_bytes(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


def made_arrays(seed: int) -> dict[str, np.ndarray]:
    """Noise in ten classes of 110, 113, ..., 137 training images, and 30 test images."""
    generator = np.random.default_rng(seed)
    y_train = np.repeat(np.arange(10), 110 + 3 * np.arange(10))
    y_test = np.repeat(np.arange(10), 3)
    return {
        "x_train": generator.integers(0, 256, (len(y_train), 28, 28), np.uint8),
        "y_train": generator.permutation(y_train).astype(np.uint8),
        "x_test": generator.integers(0, 256, (len(y_test), 28, 28), np.uint8),
        "y_test": generator.permutation(y_test).astype(np.uint8),
    }


def write_idx(folder: Path, arrays: dict[str, np.ndarray], level: int = 1) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for key, start in (
        ("x_train", "train-images-idx3"),
        ("y_train", "train-labels-idx1"),
        ("x_test", "t10k-images-idx3"),
        ("y_test", "t10k-labels-idx1"),
    ):
        content = gzip.compress(idx_bytes(arrays[key]), level)
        (folder / f"{start}-ubyte.gz").write_bytes(content)


def md5s(arrays: dict[str, np.ndarray]) -> dict[str, str]:
    return {key: hashlib.md5(array.tobytes()).hexdigest() for key, array in arrays.items()}


@contextlib.contextmanager
def published(home: Path, **data_sets: dict[str, np.ndarray]) -> Iterator[None]:
    """Makes the given arrays the published ones, with no files anywhere and no environment."""
    shapes = {key: array.shape for key, array in next(iter(data_sets.values())).items()}
    checksums = {name: md5s(arrays) for name, arrays in data_sets.items()}
    with (
        mock.patch.dict(mnist_files.SHAPES, shapes),
        mock.patch.dict(mnist_files.MD5, checksums),
        mock.patch.dict(os.environ, {"HOME": str(home)}),
    ):
        os.environ.pop("TFBDL_DATA", None)
        os.environ.pop("KERAS_HOME", None)
        yield
