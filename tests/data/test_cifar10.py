import os
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf
from made_files import TemporaryFolderTestCase

from tfbdl.data import (
    DataError,
    cifar10,
    cifar10_hmc_probabilities,
    cifar10_human_counts,
)
from tfbdl.data.cifar10 import IMAGES, PIXELS, SIZES

HAS_FILES = Path(os.environ.get("TFBDL_DATA", "none"), "cifar10", IMAGES).is_file()
SMALL = {"train": 3, "test": 2}


def grey(level: int) -> np.ndarray:
    """An image that JPEG keeps as it is."""
    return np.full((32, 32, 3), level, np.uint8)


def archive(folder: Path, **changes: np.ndarray) -> None:
    arrays: dict[str, Any] = {}
    for part, levels in (("train", (0, 128, 255)), ("test", (64, 192))):
        files = [tf.io.encode_jpeg(grey(level)).numpy() for level in levels]
        arrays[f"x_{part}"] = np.frombuffer(b"".join(files), np.uint8)
        arrays[f"x_{part}_offsets"] = np.cumsum([0, *map(len, files)])
        arrays[f"y_{part}"] = np.arange(len(levels))
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / IMAGES, **{**arrays, **changes})


@mock.patch.dict(SIZES, SMALL)
class MadeFilesTest(TemporaryFolderTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.enter(mock.patch.dict(os.environ))
        os.environ.pop("TFBDL_DATA", None)

    def test_images_and_classes(self) -> None:
        archive(self.folder / "cifar10")
        for actual in (cifar10(directory=self.folder), self.by_environment()):
            np.testing.assert_array_equal(actual.x_train, [grey(0), grey(128), grey(255)])
            np.testing.assert_array_equal(actual.x_test, [grey(64), grey(192)])
            self.assertEqual((actual.y_train.tolist(), actual.y_test.tolist()), ([0, 1, 2], [0, 1]))

    def by_environment(self) -> tuple[Any, ...]:
        os.environ["TFBDL_DATA"] = str(self.folder / "cifar10")
        return cifar10()

    def test_pixels_are_read_before_jpeg_files(self) -> None:
        archive(self.folder / "cifar10")
        rng = np.random.default_rng(0)
        arrays = {
            "x_train": rng.integers(0, 256, (3, 32, 32, 3), "uint8"),
            "y_train": np.array([9, 0, 4], "uint8"),
            "x_test": rng.integers(0, 256, (2, 32, 32, 3), "uint8"),
            "y_test": np.array([7, 7], "uint8"),
        }
        np.savez(self.folder / "cifar10" / PIXELS, **arrays)
        actual = cifar10(directory=self.folder)._asdict()
        for name, expected in arrays.items():
            np.testing.assert_array_equal(actual[name], expected)
        self.assertEqual(actual["y_train"].dtype, np.int32)
        np.savez(self.folder / PIXELS, **{**arrays, "y_test": np.array([7, 10], "uint8")})
        (self.folder / "cifar10" / PIXELS).unlink()
        with self.assertRaisesRegex(DataError, "has classes above 9"):
            cifar10(directory=self.folder)

    def test_other_files_are_refused(self) -> None:
        for changes, words in (
            ({"y_train": np.array([0, 1, 10])}, "does not hold the 3 train images"),
            ({"y_test": np.array([0])}, "does not hold the 2 test images"),
            ({"x_train": np.zeros(7, np.uint8)}, "does not hold the 3 train images"),
            (
                {"x_test": np.zeros(9, np.uint8), "x_test_offsets": np.array([0, 4, 9])},
                "image 0 is no JPEG file",
            ),
        ):
            archive(self.folder, **changes)
            with self.assertRaisesRegex(DataError, words):
                cifar10(directory=self.folder)
        (self.folder / IMAGES).write_bytes(b"PK")
        with self.assertRaisesRegex(DataError, "is not a readable archive"):
            cifar10(directory=self.folder)

    def test_tables(self) -> None:
        for read, name, table in (
            (cifar10_hmc_probabilities, "hmc_probabilities.npy", np.full((2, 10), 0.1, "f")),
            (cifar10_human_counts, "human_counts.npy", np.arange(20).reshape(2, 10)),
        ):
            with self.assertRaisesRegex(DataError, f"TFBDL_DATA is not set.*{name}"):
                read()
            with self.assertRaisesRegex(DataError, f"directory=.* has no cifar10/{name}"):
                read(directory=self.folder)
            for wrong, words in (
                (table[:, :9], r"not a row of 10 each"),
                (np.tile(table, (2, 1)), "more rows than test images"),
                (-1 - table, "negative"),
                (table.astype(str), "not a row of 10 each"),
                (table.astype(object), "not a readable .npy file"),
            ):
                np.save(self.folder / name, wrong, allow_pickle=True)
                with self.assertRaisesRegex(DataError, words):
                    read(directory=self.folder)
            np.save(self.folder / name, table)
            np.testing.assert_array_equal(read(directory=self.folder), table)


@unittest.skipUnless(HAS_FILES, "TFBDL_DATA holds no cifar10")
class PublishedFilesTest(unittest.TestCase):
    def test_the_order_is_that_of_the_people_and_of_hmc(self) -> None:
        actual = cifar10()
        self.assertEqual(np.bincount(actual.y_train).tolist(), [5000] * 10)
        people = cifar10_human_counts().argmax(-1)
        self.assertEqual(np.mean(people == actual.y_test), 0.9921)
        p = cifar10_hmc_probabilities()
        self.assertEqual(np.mean(p.argmax(-1) == actual.y_test[: len(p)]), 0.9152)
