import os
import socket
import subprocess
import sys
import urllib.error
from pathlib import Path

import numpy as np
from made_files import write_idx
from mnist_files_case import ARRAYS, FASHION, MNIST, MnistFilesTestCase

import tfbdl.data
from tfbdl.data import DataError
from tfbdl.data.mnist_files import load_published


class KerasTest(MnistFilesTestCase):
    def test_cache_is_read_without_downloading(self) -> None:
        write_idx(self.home / ".keras/datasets/fashion-mnist", FASHION)
        np.savez(self.home / ".keras/datasets/mnist.npz", **MNIST)
        self.assert_loads("mnist")
        self.assert_loads("fashion_mnist")

    def test_keras_home_is_honoured(self) -> None:
        write_idx(self.data / "datasets/fashion-mnist", FASHION)
        os.environ["KERAS_HOME"] = str(self.data)
        self.assert_loads("fashion_mnist")

    def test_damaged_cache_is_an_error(self) -> None:
        (self.home / ".keras/datasets").mkdir(parents=True)
        (self.home / ".keras/datasets/mnist.npz").write_bytes(b"half a download")
        with self.assert_data_error(".keras/datasets/mnist.npz", "delete it"):
            load_published("mnist", None)

    def test_without_files_keras_downloads(self) -> None:
        for name, arrays in ARRAYS.items():
            train = arrays["x_train"], arrays["y_train"]
            test = arrays["x_test"], arrays["y_test"]
            self.downloads[name].side_effect = lambda train=train, test=test: (train, test)
            self.assert_loads(name)
            self.downloads[name].assert_called_once_with()

    def test_incomplete_cache_is_downloaded_again(self) -> None:
        write_idx(self.home / ".keras/datasets/fashion-mnist", FASHION)
        next((self.home / ".keras/datasets/fashion-mnist").iterdir()).unlink()
        self.downloads["fashion_mnist"].side_effect = OSError
        with self.assert_data_error("download"):
            load_published("fashion_mnist", None)

    def test_wrong_download_is_an_error(self) -> None:
        train, test = (MNIST["x_train"], MNIST["y_train"]), (MNIST["x_test"], MNIST["y_test"])
        self.downloads["fashion_mnist"].side_effect = lambda: (train, test)
        with self.assert_data_error("the download", "of mnist, not of fashion_mnist"):
            load_published("fashion_mnist", None)

    def test_no_network_is_one_line(self) -> None:
        for failure in (
            Exception("URL fetch failure on https://x:\n None -- [Errno -2] Name not known"),
            urllib.error.ContentTooShortError("got 3\nof 9 bytes", None),
            TimeoutError("timed out"),
            EOFError(),
        ):
            self.downloads["mnist"].side_effect = failure
            with self.assert_data_error("could not download mnist", "network", "TFBDL_DATA"):
                load_published("mnist", None)

    def test_download_cannot_hang(self) -> None:
        timeouts = []

        def fail() -> None:
            timeouts.append(socket.getdefaulttimeout())
            raise OSError

        self.downloads["mnist"].side_effect = fail
        with self.assertRaises(DataError):
            load_published("mnist", None)
        self.assertLessEqual(timeouts[0], 60)
        self.assertIsNone(socket.getdefaulttimeout())

    def test_no_network_with_keras_own_downloader(self) -> None:
        closed = "http://127.0.0.1:9"
        environment = {"KERAS_HOME": str(self.home), "HTTPS_PROXY": closed, "https_proxy": closed}
        root = Path(tfbdl.data.__file__).parents[2]
        for variable in ("NO_PROXY", "no_proxy"):
            os.environ.pop(variable, None)
        done = subprocess.run(
            [sys.executable, "-c", "from tfbdl.data import load; load('mnist')"],
            env={**os.environ, **environment, "PYTHONPATH": str(root)},
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=120,
        )
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("Traceback"), 1)
        self.assertIn(
            "DataError: could not download mnist (URL fetch", done.stderr.splitlines()[-1]
        )
