"""MNIST and Fashion-MNIST as published: where their arrays are found, and the proof they are so.

The checksums are of the decoded arrays, so any compression of them passes and nothing else does.
"""

import hashlib
import os
import socket
from pathlib import Path

import numpy as np

from tfbdl import arguments
from tfbdl.data.errors import DataError
from tfbdl.data.idx import read_idx
from tfbdl.data.npz import read_npz

SHAPES: dict[str, tuple[int, ...]] = {
    "x_train": (60000, 28, 28),
    "y_train": (60000,),
    "x_test": (10000, 28, 28),
    "y_test": (10000,),
}

IDX_FILES = {
    "x_train": "train-images-idx3-ubyte.gz",
    "y_train": "train-labels-idx1-ubyte.gz",
    "x_test": "t10k-images-idx3-ubyte.gz",
    "y_test": "t10k-labels-idx1-ubyte.gz",
}

MD5: dict[str, dict[str, str]] = {
    "mnist": {
        "x_train": "6510e85a72c3e9475c492d559d3770d2",
        "y_train": "e86ee40d66677c011a9abda399ec8c4d",
        "x_test": "240610fa99e73bfa49df8e7fc24d3206",
        "y_test": "073c3904dfbd3e141ff8aa01cfde6b15",
    },
    "fashion_mnist": {
        "x_train": "f209073e486d5113ebe2cc431d4df862",
        "y_train": "3236f6424fc25388b2834cb19942cf7e",
        "x_test": "b7656a891b218fc13e45205c48a92cae",
        "y_test": "8dea97a4e78c1bd1b5a6e8efbb870b6e",
    },
}
"""The data sets in the files of MNIST, by name, and the checksums of their arrays."""

_DOWNLOAD_TIMEOUT_SECONDS = 30.0


def load_published(name: str, directory: str | os.PathLike[str] | None) -> dict[str, np.ndarray]:
    """Finds, reads and verifies a published data set.

    The first source that applies is the only one tried: `directory`, the environment variable
    `TFBDL_DATA`, Keras' cache (`$KERAS_HOME/datasets` or `~/.keras/datasets`) if it holds the
    data set, Keras' downloader.

    Args:
        name: "mnist" or "fashion_mnist".
        directory: a directory with `<name>.npz` or the four original IDX `.gz` files, directly
            or in a subfolder called after the data set; None for the other sources.

    Returns:
        uint8 arrays `x_train` (60000, 28, 28), `y_train` (60000,), `x_test` (10000, 28, 28) and
        `y_test` (10000,), by name.

    Raises:
        DataError: if the data set is not there, cannot be read, or is not the published one.

    """
    source, directory = "directory", arguments.optional(arguments.path, "directory", directory)
    if directory is None:
        source, directory = "TFBDL_DATA", os.environ.get("TFBDL_DATA") or None
    place = _find(name, _keras_cache() if directory is None else directory)
    if place is None and directory is not None:
        raise DataError(
            f"{source}={os.fspath(directory)!r} has no {name}: put {name}.npz there, or "
            f"{', '.join(IDX_FILES.values())}; or load 'digits', which needs no download"
        )
    arrays = _download(name) if place is None else _read(place)
    _verify(name, arrays, "the download" if place is None else str(place))
    return arrays


def _keras_cache() -> Path:
    return Path(os.environ.get("KERAS_HOME") or "~/.keras", "datasets")


def _find(name: str, directory: str | os.PathLike[str]) -> Path | None:
    """Returns the `.npz` file, or the folder with all four IDX files, or None."""
    root = Path(os.path.expanduser(directory))
    for folder in (root / name, root / name.replace("_", "-"), root):
        if os.path.isfile(folder / f"{name}.npz"):
            return folder / f"{name}.npz"
        if all(os.path.isfile(folder / file) for file in IDX_FILES.values()):
            return folder
    return None


def _read(place: Path) -> dict[str, np.ndarray]:
    if os.path.isfile(place):
        return read_npz(place, SHAPES)
    return {key: read_idx(place / file, SHAPES[key]) for key, file in IDX_FILES.items()}


def _download(name: str) -> dict[str, np.ndarray]:
    from keras import datasets  # noqa: PLC0415

    if not hasattr(datasets, name):
        raise DataError(f"TFBDL_DATA is not set: make it the folder that holds {name}")
    timeout = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_DOWNLOAD_TIMEOUT_SECONDS)
    try:
        (x_train, y_train), (x_test, y_test) = getattr(datasets, name).load_data()
    except Exception as error:  # Keras' downloader raises a bare Exception
        raise DataError(
            f"could not download {name} ({' '.join(str(error).split())}); check the network, or "
            "set TFBDL_DATA to a directory that holds it; or load 'digits', which needs none"
        ) from None
    finally:
        socket.setdefaulttimeout(timeout)
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}


def _verify(name: str, arrays: dict[str, np.ndarray], source: str) -> None:
    for key in SHAPES:
        expected = MD5[name][key]
        digest = hashlib.md5(arrays[key].tobytes(), usedforsecurity=False).hexdigest()
        if digest != expected:
            owner = next((other for other, of in MD5.items() if digest == of[key]), None)
            raise DataError(
                f"{key} of {source} is that of {owner}, not of {name}; put {name} into a folder "
                "of its name"
                if owner
                else f"{key} of {source} is not that of {name}: its md5 is {digest}, not "
                f"{expected}; replace or delete it"
            )
