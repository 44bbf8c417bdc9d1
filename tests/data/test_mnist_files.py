import os

import numpy as np
from made_files import write_idx
from mnist_files_case import ARRAYS, FASHION, MNIST, MnistFilesTestCase

from tfbdl.data import DataError
from tfbdl.data.mnist_files import load_published


class DirectoryTest(MnistFilesTestCase):
    def test_idx_files_directly_or_in_a_subfolder(self) -> None:
        for name, folder in (
            ("mnist", "."),
            ("mnist", "mnist"),
            ("fashion_mnist", "."),
            ("fashion_mnist", "fashion-mnist"),
            ("fashion_mnist", "fashion_mnist"),
        ):
            with self.subTest(name=name, folder=folder):
                root = self.data / f"{name} in {folder}"
                write_idx(root / folder, ARRAYS[name], level=6)
                self.assert_loads(name, root)
                self.assert_loads(name, str(root))

    def test_npz_directly_or_in_a_subfolder(self) -> None:
        for name, arrays in ARRAYS.items():
            for folder in (".", name):
                for save in (np.savez, np.savez_compressed):
                    with self.subTest(name=name, folder=folder, save=save):
                        root = self.data / f"{name}{folder}{save.__name__}"
                        (root / folder).mkdir(parents=True)
                        save(root / folder / f"{name}.npz", **arrays)
                        self.assert_loads(name, root)

    def test_one_directory_holds_both(self) -> None:
        write_idx(self.data, MNIST)
        write_idx(self.data / "fashion-mnist", FASHION)
        self.assert_loads("mnist", self.data)
        self.assert_loads("fashion_mnist", self.data)

    def test_home_is_expanded(self) -> None:
        write_idx(self.home / "mine", MNIST)
        self.assert_loads("mnist", "~/mine")

    def test_lacking_files_are_an_error_whatever_the_other_sources_have(self) -> None:
        write_idx(self.home / ".keras/datasets/mnist", MNIST)
        os.environ["TFBDL_DATA"] = str(self.home / ".keras/datasets")
        self.assert_loads("mnist")
        for directory in (self.data, self.folder / "absent"):
            with self.assert_data_error("directory=", repr(str(directory)), "put mnist.npz there"):
                load_published("mnist", directory)

    def test_three_of_four_files_are_an_error(self) -> None:
        write_idx(self.data, MNIST)
        (self.data / "t10k-labels-idx1-ubyte.gz").unlink()
        with self.assert_data_error("t10k-labels-idx1-ubyte.gz"):
            load_published("mnist", self.data)

    def test_damaged_files_are_an_error(self) -> None:
        write_idx(self.data, MNIST)
        path = self.data / "train-images-idx3-ubyte.gz"
        path.write_bytes(path.read_bytes()[:-100])
        with self.assert_data_error(str(path), "replace"):
            load_published("mnist", self.data)
        (self.data / "mnist.npz").write_bytes(b"no archive")
        with self.assert_data_error("mnist.npz"):
            load_published("mnist", self.data)

    def test_one_changed_byte_is_an_error(self) -> None:
        for key in MNIST:
            changed = {**MNIST, key: MNIST[key].copy()}
            changed[key].flat[-1] ^= 1
            write_idx(self.data, changed)
            with self.assert_data_error(key, "md5", str(self.data)):
                load_published("mnist", self.data)

    def test_the_other_data_set_is_an_error(self) -> None:
        write_idx(self.data, FASHION)
        with self.assert_data_error("is that of fashion_mnist, not of mnist; put mnist into"):
            load_published("mnist", self.data)


class EnvironmentTest(MnistFilesTestCase):
    def test_variable_names_the_directory(self) -> None:
        write_idx(self.data / "mnist", MNIST)
        os.environ["TFBDL_DATA"] = str(self.data)
        self.assert_loads("mnist")

    def test_argument_comes_first(self) -> None:
        write_idx(self.data, FASHION)
        write_idx(self.folder / "argument", MNIST)
        os.environ["TFBDL_DATA"] = str(self.data)
        self.assert_loads("mnist", self.folder / "argument")

    def test_lacking_files_are_an_error(self) -> None:
        write_idx(self.home / ".keras/datasets/mnist", MNIST)
        os.environ["TFBDL_DATA"] = str(self.data)
        with self.assert_data_error("TFBDL_DATA=", repr(str(self.data))):
            load_published("mnist", None)
        with self.assertRaisesRegex(DataError, "or load 'digits', which needs no download$"):
            load_published("mnist", None)

    def test_empty_variable_is_unset(self) -> None:
        write_idx(self.home / ".keras/datasets/mnist", MNIST)
        os.environ["TFBDL_DATA"] = ""
        self.assert_loads("mnist")
