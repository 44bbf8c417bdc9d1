import gzip
import os
import struct
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from made_files import TemporaryFolderTestCase, made_arrays, published, write_idx
from sklearn.datasets import load_digits

from tfbdl.data import NAMES, SPLITS, DataError, ImageData, load
from tfbdl.data.digits import enlarged_digits

MADE = made_arrays(seed=2)


def tutorial_by_brute_force(x: Any, y: Any, per_class: Any) -> Any:
    """The definition, image by image: x and y of training and of testing."""
    train, test = list[Any](), list[Any]()
    for label in range(10):
        seen = 0
        for image, its_label in zip(x, y, strict=True):
            if its_label == label:
                if seen < per_class:
                    train.append((image, label))
                elif seen < per_class + 100:
                    test.append((image, label))
                seen += 1
    return [np.array(column) for part in (train, test) for column in zip(*part, strict=True)]


class ImageTestCase(unittest.TestCase):
    def assert_data(self, data: Any, expected: Any, white: Any) -> None:
        self.assertIsInstance(data, ImageData)
        for x, pixels in ((data.x_train, expected[0]), (data.x_test, expected[2])):
            self.assertEqual(x.dtype, np.float32)
            np.testing.assert_array_equal(x, pixels.astype(np.float32) / np.float32(white))
        for y, labels in ((data.y_train, expected[1]), (data.y_test, expected[3])):
            self.assertEqual(y.dtype, np.int32)
            np.testing.assert_array_equal(y, labels)


class MadeFilesTest(TemporaryFolderTestCase, ImageTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.enter(published(self.folder, mnist=MADE, fashion_mnist=MADE))
        write_idx(self.folder, MADE)

    def test_full_split_is_the_files(self) -> None:
        for name in ("mnist", "fashion_mnist"):
            data = load(name, "full", directory=self.folder)
            expected = [MADE[key] for key in ("x_train", "y_train", "x_test", "y_test")]
            self.assert_data(data, expected, white=255)

    def test_tutorial_split_by_brute_force(self) -> None:
        for per_class in (1, 10, 20, 110):
            data = load("mnist", per_class=per_class, directory=self.folder)
            expected = tutorial_by_brute_force(MADE["x_train"], MADE["y_train"], per_class)
            self.assert_data(data, expected, white=255)
        data = load("mnist", per_class=20, directory=self.folder)
        np.testing.assert_array_equal(data.y_train, np.repeat(np.arange(10), 20))
        np.testing.assert_array_equal(np.bincount(data.y_test), [90, 93, 96, 99] + [100] * 6)

    def test_defaults(self) -> None:
        data = load("mnist", directory=self.folder)
        same = load("mnist", "tutorial", per_class=100, directory=self.folder)
        for array, expected in zip(data, same, strict=True):
            np.testing.assert_array_equal(array, expected)
        self.assertEqual(data.x_train.shape, (1000, 28, 28))

    def test_too_many_per_class(self) -> None:
        with self.assertRaisesRegex(ValueError, r"per_class=111 .* at most 110$"):
            load("mnist", per_class=111, directory=self.folder)

    def test_missing_files(self) -> None:
        with self.assert_data_error("directory=", "fashion_mnist"):
            load("fashion_mnist", "full", directory=self.folder / "absent")


class ArgumentsTest(unittest.TestCase):
    def test_names_and_splits(self) -> None:
        self.assertEqual(NAMES, ("digits", "mnist", "fashion_mnist"))
        self.assertEqual(SPLITS, ("tutorial", "full"))

    def test_unknown_name_or_split(self) -> None:
        with self.assertRaisesRegex(ValueError, "^name='cifar' .* digits, fashion_mnist, mnist$"):
            load("cifar")
        with self.assertRaisesRegex(ValueError, "^split='train' .* full, tutorial$"):
            load("digits", "train")

    def test_per_class_is_a_positive_integer(self) -> None:
        for per_class in (0, -1, 2.0, "3", True):
            with self.assertRaisesRegex(ValueError, "^per_class=.* must be a positive integer$"):
                load("digits", per_class=per_class)
        self.assertEqual(len(load("digits", per_class=np.int64(2)).y_train), 20)


class DigitsTest(ImageTestCase):
    def test_tutorial_split_by_brute_force(self) -> None:
        x, y = enlarged_digits()
        for per_class in (3, 100, 174):
            expected = tutorial_by_brute_force(x, y, per_class)
            self.assert_data(load("digits", per_class=per_class), expected, white=1)
        sizes = np.bincount(load("digits").y_test)
        np.testing.assert_array_equal(sizes, [78, 82, 77, 83, 81, 82, 81, 79, 74, 80])
        with self.assertRaisesRegex(ValueError, r"per_class=175 .* at most 174$"):
            load("digits", per_class=175)

    def test_full_split_by_brute_force(self) -> None:
        x, y = enlarged_digits()
        train, test = list[Any](), list[Any]()
        for i, label in enumerate(y):
            is_in_last_sixth = np.sum(y[i:] == label) <= np.sum(y == label) // 6
            (test if is_in_last_sixth else train).append(i)
        self.assertEqual((len(train), len(test)), (1501, 296))
        self.assert_data(load("digits", "full"), (x[train], y[train], x[test], y[test]), white=1)

    def test_enlarged_images_are_those_of_sklearn(self) -> None:
        x, y = enlarged_digits()
        small = load_digits().images / 16
        np.testing.assert_array_equal(y, load_digits().target)
        self.assertEqual(x.shape, (1797, 28, 28))
        self.assertGreaterEqual(x.min(), 0)
        self.assertLessEqual(x.max(), 1)
        halves = np.kron(x, np.ones((2, 2)))
        reduced = halves.reshape(-1, 8, 7, 8, 7).mean(axis=(2, 4))
        self.assertLess(np.abs(reduced - small).mean(), 0.055, "one pixel off gives 0.085")
        self.assertLess(abs(x.mean() - small.mean()), 0.01)

    def test_enlarged_images_are_smooth(self) -> None:
        x, _ = enlarged_digits()
        steps = np.abs(np.diff(x, axis=2))
        self.assertLess(steps.max(), 0.5, "a block of copied pixels would step by 1")

    def test_no_files_are_needed(self) -> None:
        with mock.patch("tfbdl.data.images.load_published", side_effect=AssertionError):
            load("digits")


def real_folder(name: str) -> Any:
    folder = Path(os.environ.get("TFBDL_DATA", "absent")) / name
    if not (folder / "train-images-idx3-ubyte.gz").is_file():
        raise unittest.SkipTest(
            f"set TFBDL_DATA to a directory with the original .gz files in a subfolder {name}"
        )
    return folder


def decode_by_hand(path: Any) -> Any:
    content = gzip.decompress(path.read_bytes())
    sizes = struct.unpack(f">{content[3]}I", content[4 : 4 + 4 * content[3]])
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(sizes)


class RealFilesTest(ImageTestCase):
    def check(self, name: str, folder: Any) -> None:
        expected = [
            decode_by_hand(folder / f"{part}-ubyte.gz")
            for part in (
                *("train-images-idx3", "train-labels-idx1"),
                *("t10k-images-idx3", "t10k-labels-idx1"),
            )
        ]
        self.assertEqual(expected[0].shape, (60000, 28, 28))
        self.assertEqual(expected[2].shape, (10000, 28, 28))
        self.assert_data(load(name, "full"), expected, white=255)
        brute = tutorial_by_brute_force(*expected[:2], per_class=100)
        self.assert_data(load(name), brute, white=255)

    def test_mnist(self) -> None:
        self.check("mnist", real_folder("mnist"))

    def test_fashion_mnist(self) -> None:
        self.check("fashion_mnist", real_folder("fashion-mnist"))

    def test_one_is_not_the_other(self) -> None:
        with self.assertRaisesRegex(DataError, "is that of mnist, not of fashion_mnist; put"):
            load("fashion_mnist", directory=real_folder("mnist"))
