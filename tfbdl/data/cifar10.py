"""CIFAR-10, with what an HMC run and what people say of its test images.

The images are read from an archive of pixels, one of JPEG files, or Keras' own copy. The class
probabilities of Hamiltonian Monte Carlo are those of Izmailov et al. (2021), the people's answers
CIFAR-10H of Peterson et al. (2019).
"""

import os
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tfbdl import arguments
from tfbdl.data.errors import DataError
from tfbdl.data.npz import read_npz

CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
PIXELS = "cifar10.npz"
IMAGES = "cifar10_jpeg.npz"
SHAPE = (32, 32, 3)
SIZES = {"train": 50_000, "test": 10_000}

T = TypeVar("T")


class CIFAR10(NamedTuple):
    """Colour images and their classes.

    Attributes:
        x_train: uint8 (50000, 32, 32, 3).
        y_train: int32 (50000,), classes 0..9 of `tfbdl.data.cifar10.CLASSES`.
        x_test: uint8 (10000, 32, 32, 3), in the original order.
        y_test: int32 (10000,).

    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def cifar10(*, directory: str | os.PathLike[str] | None = None) -> CIFAR10:
    """Loads CIFAR-10.

    Args:
        directory: the folder of `cifar10.npz` (uint8 arrays `x_train`, `y_train`, `x_test`,
            `y_test`: the original pixels, in the original order) or, if that is missing,
            `cifar10_jpeg.npz` (arrays `x_train`, `x_test` of the bytes of all JPEG files,
            `x_train_offsets`, `x_test_offsets` where each begins and the last ends, `y_train`,
            `y_test`), or one with it in a subfolder `cifar10`. By default the environment variable
            `TFBDL_DATA` says where; if it is unset, Keras' copy is read, which Keras downloads.
            JPEG files are not bit for bit the original pixels (some 6 of 255 levels away), and
            their training images may stand in another order.

    Returns:
        Images and classes; see `CIFAR10`.

    Raises:
        DataError: if the files are missing, damaged or not of this form.

    """
    if directory is None and not os.environ.get("TFBDL_DATA"):
        return _of_keras()
    path = _find((PIXELS, IMAGES), directory)
    if path.name == PIXELS:
        return _of_pixels(path)
    parts = []
    for name, size in SIZES.items():
        files, offsets, labels = _read(
            path, lambda a, n=name: (a[f"x_{n}"], a[f"x_{n}_offsets"], a[f"y_{n}"])
        )
        fits = offsets.shape == (size + 1,) and labels.shape == (size,)
        if not fits or offsets[-1] != len(files) or not np.isin(labels, range(10)).all():
            raise DataError(f"{path} does not hold the {size} {name} images; replace it")
        parts += [_decoded(path, files, offsets), labels.astype(np.int32)]
    return CIFAR10(*parts)


def cifar10_hmc_probabilities(*, directory: str | os.PathLike[str] | None = None) -> np.ndarray:
    """Class probabilities of Hamiltonian Monte Carlo for the first M test images.

    They are means over the chains of Izmailov et al. (2021) on a ResNet-20 with filter response
    normalisation.

    Args:
        directory: the folder of `hmc_probabilities.npy`, as in `cifar10`.

    Returns:
        float32 (M, 10).

    Raises:
        DataError: if the file is missing, damaged or not of this form.

    """
    return _table("hmc_probabilities.npy", "f", directory)


def cifar10_human_counts(*, directory: str | os.PathLike[str] | None = None) -> np.ndarray:
    """Counts of the labels that people gave to each test image: CIFAR-10H (Peterson et al. 2019).

    Args:
        directory: the folder of `human_counts.npy`, as in `cifar10`.

    Returns:
        Integers (M, 10), some 50 in a row.

    Raises:
        DataError: if the file is missing, damaged or not of this form.

    """
    return _table("human_counts.npy", "iu", directory)


def _table(name: str, kinds: str, directory: str | os.PathLike[str] | None) -> np.ndarray:
    path = _find((name,), directory)
    try:
        table = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} is not a readable .npy file ({type(error).__name__})") from None
    if table.dtype.kind not in kinds or table.ndim != 2 or table.shape[1] != len(CLASSES):
        raise DataError(f"{path} holds {table.dtype} of shape {table.shape}, not a row of 10 each")
    if len(table) > SIZES["test"] or np.any(table < 0):
        raise DataError(f"{path} has more rows than test images, or negative numbers; replace it")
    return table


def _find(names: Sequence[str], directory: str | os.PathLike[str] | None) -> Path:
    """The first file of those names that there is; the last of them is asked for."""
    source, directory = "directory", arguments.optional(arguments.path, "directory", directory)
    if directory is None:
        source, directory = "TFBDL_DATA", os.environ.get("TFBDL_DATA")
    *_, asked = names
    if not directory:
        raise DataError(f"TFBDL_DATA is not set: make it the folder that holds cifar10/{asked}")
    root = Path(os.path.expanduser(directory))
    for name in names:
        for path in (root / "cifar10" / name, root / name):
            if path.is_file():
                return path
    raise DataError(f"{source}={os.fspath(directory)!r} has no cifar10/{asked}; put it there")


def _of_pixels(path: Path) -> CIFAR10:
    shapes: dict[str, tuple[int, ...]] = {}
    for part, size in SIZES.items():
        shapes |= {f"x_{part}": (size, *SHAPE), f"y_{part}": (size,)}
    arrays = read_npz(path, shapes)
    for part in SIZES:
        if arrays[f"y_{part}"].max() >= len(CLASSES):
            raise DataError(f"{path} has classes above {len(CLASSES) - 1}; replace it")
        arrays[f"y_{part}"] = arrays[f"y_{part}"].astype(np.int32)
    return CIFAR10(**arrays)


def _read(path: Path, extract: Callable[[Any], T]) -> T:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return extract(archive)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path} is not a readable archive of the images ({type(error).__name__}); replace it"
        ) from None


def _decoded(path: Path, files: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    import tensorflow as tf  # noqa: PLC0415

    images = np.empty((len(offsets) - 1, *SHAPE), np.uint8)
    for i in range(len(images)):
        content = files[offsets[i] : offsets[i + 1]].tobytes()
        try:
            image = tf.io.decode_jpeg(content, channels=3, dct_method="INTEGER_ACCURATE")
        except tf.errors.InvalidArgumentError:
            raise DataError(f"{path}: image {i} is no JPEG file; replace the archive") from None
        if image.shape != SHAPE:
            raise DataError(f"{path}: image {i} has shape {tuple(image.shape)}; replace it")
        images[i] = image
    return images


def _of_keras() -> CIFAR10:
    from keras import datasets  # noqa: PLC0415

    try:
        (x_train, y_train), (x_test, y_test) = datasets.cifar10.load_data()
    except Exception as error:  # Keras' downloader raises a bare Exception
        raise DataError(
            f"could not download cifar10 ({' '.join(str(error).split())}); check the network, or "
            f"set TFBDL_DATA to a folder that holds cifar10/{IMAGES}"
        ) from None
    return CIFAR10(x_train, y_train[:, 0].astype(np.int32), x_test, y_test[:, 0].astype(np.int32))
