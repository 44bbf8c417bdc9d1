"""The image data sets by name: `load("digits" | "mnist" | "fashion_mnist")`."""

import os
from typing import NamedTuple

import numpy as np

from tfbdl.arguments import option, positive_integer, shown
from tfbdl.data.digits import enlarged_digits
from tfbdl.data.mnist_files import MD5, load_published
from tfbdl.data.splits import first_of_each_class, last_sixth_of_each_class

NAMES = ("digits", *MD5)
SPLITS = ("tutorial", "full")


class ImageData(NamedTuple):
    """Images and their classes.

    Attributes:
        x_train: float32 (N, 28, 28), ink in [0, 1].
        y_train: int32 (N,), classes 0..9.
        x_test: float32 (M, 28, 28), ink in [0, 1].
        y_test: int32 (M,), classes 0..9.

    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


def load(
    name: str,
    split: str = "tutorial",
    *,
    per_class: int | None = None,
    directory: str | os.PathLike[str] | None = None,
) -> ImageData:
    """Loads an image data set with grey levels in [0, 1] (see `binarize` for black and white).

    Args:
        name: "digits" (scikit-learn's 1,797 digits enlarged to 28x28; needs no download),
            "mnist" or "fashion_mnist".
        split: "tutorial", a small class-balanced set that trains in seconds: for each class
            0..9 in turn the first `per_class` images of the training file, and for testing the
            next 100 images of the class in the same file (fewer where fewer exist). "full": the
            60,000 and 10,000 images of the published training and test files, in their order.
            The digits have a single file, which the tutorial split draws on; their full split
            tests on the last sixth of each class (1,501 and 296 images, in file order).
        per_class: training images of each class in the tutorial split, by default 100; only for it.
        directory: where `<name>.npz` or the four original IDX `.gz` files are, directly or in a
            subfolder `mnist`, `fashion-mnist` or `fashion_mnist`. By default the environment
            variable `TFBDL_DATA` says where; if it is unset, Keras' cache is read or, failing
            that, Keras downloads the files. "digits" needs none and takes none.

    Returns:
        The images and classes; see `ImageData` for shapes and dtypes.

    Raises:
        ValueError: if `name` or `split` is unknown, `per_class` is not a positive int or more than
            the smallest class has, or an argument does not go with `name` or `split`.
        DataError: if the files are missing, damaged or not the published ones.

    """
    option("name", name, NAMES)
    option("split", split, SPLITS)
    if split == "tutorial":
        per_class = 100 if per_class is None else positive_integer("per_class", per_class)
    elif per_class is not None:
        raise ValueError(f"per_class={shown(per_class)} is for split='tutorial'; leave it out")
    if name == "digits":
        if directory is not None:
            raise ValueError(f"directory={shown(directory)} is of no use to name='digits'")
        (x, y), white = enlarged_digits(), 1
    else:
        arrays, white = load_published(name, directory), 255
        if split == "full":
            return _image_data(white, **arrays)
        x, y = arrays["x_train"], arrays["y_train"]
    if per_class is None:
        train, test = last_sixth_of_each_class(y)
    else:
        train, test = first_of_each_class(y, per_class)
    return _image_data(white, x[train], y[train], x[test], y[test])


def _image_data(
    white: int, x_train: np.ndarray, y_train: np.ndarray, x_test: np.ndarray, y_test: np.ndarray
) -> ImageData:
    """Brings pixels in [0, white] to [0, 1] and all arrays to their documented dtypes."""
    return ImageData(
        np.divide(x_train, white, dtype=np.float32),
        y_train.astype(np.int32),
        np.divide(x_test, white, dtype=np.float32),
        y_test.astype(np.int32),
    )
