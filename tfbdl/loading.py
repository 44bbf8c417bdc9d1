"""`tfbdl.load`: whatever this package has saved."""

from __future__ import annotations

import os
import textwrap
import warnings
from typing import Any

import keras

from tfbdl import arguments

NOTHING_LOST = r"Skipping variable loading for optimizer .*the saved optimizer has 0 variables"
"""What Keras warns of where a network was compiled and not trained by its own optimizer."""


def load(path: str | os.PathLike[str]) -> Any:
    """The model or posterior of a `.keras` file, in safe mode.

    It does what `keras.models.load_model` does, which reads the same files once tfbdl is imported;
    but a file that cannot be read is an error of one line.

    Args:
        path: the path of a file that `model.save` or `posterior.save` has written.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is no `.keras` file, is damaged, or comes from a newer version.
    """
    path = arguments.path("path", path)
    if not path.is_file():
        raise FileNotFoundError(f"path={str(path)!r} is no file; give one that save() has written")
    if path.suffix != ".keras":
        raise ValueError(f"path={str(path)!r} must end in .keras")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=NOTHING_LOST)
            return keras.models.load_model(path)
    except Exception as error:  # damaged files make zipfile, h5py and Keras raise nearly anything
        first: BaseException = error
        while first.__context__ is not None:  # Keras wraps the reason in the whole config
            first = first.__context__
        reason = textwrap.shorten(str(first), 300, placeholder=" ...") or type(first).__name__
        raise ValueError(f"path={str(path)!r} cannot be loaded: {reason}") from None
