"""Two made data sets in place of the published ones, and downloads that fail unless expected."""

from typing import Any
from unittest import mock

import keras
import numpy as np
from made_files import TemporaryFolderTestCase, made_arrays, published

from tfbdl.data.mnist_files import load_published

MNIST = made_arrays(seed=0)
FASHION = made_arrays(seed=1)
ARRAYS = {"mnist": MNIST, "fashion_mnist": FASHION}


class MnistFilesTestCase(TemporaryFolderTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.home = self.folder / "home"
        self.data = self.folder / "data"
        self.data.mkdir()
        self.enter(published(self.home, **ARRAYS))
        self.downloads = {
            name: self.enter(
                mock.patch.object(
                    getattr(keras.datasets, name), "load_data", side_effect=AssertionError
                )
            )
            for name in ARRAYS
        }

    def assert_loads(self, name: str, directory: Any = None) -> None:
        loaded = load_published(name, directory)
        self.assertEqual(set(loaded), set(ARRAYS[name]))
        for key, expected in ARRAYS[name].items():
            np.testing.assert_array_equal(loaded[key], expected, strict=True)
