"""Loading a saved model for a command."""

from __future__ import annotations

import re
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import tfbdl
from tfbdl import startup
from tfbdl.cli.archive import Unbelievable, check_archive
from tfbdl.cli.values import check_regular

if TYPE_CHECKING:
    import keras


def load_model(path: Path, *, compiled: bool) -> keras.Model:
    """The model in a `.keras` file, with the package's layers known and a quiet screen.

    Args:
        path: the path of the file.
        compiled: whether its loss is wanted, which may be one of the user's own.

    Raises:
        ValueError: if the file is no such model, or holds what is not known here.
    """
    check_regular(path, 'give what model.save("model.keras") wrote')
    if not zipfile.is_zipfile(path):
        reason = "is no .keras file, or is cut off" if path.exists() else "does not exist"
        raise ValueError(f'{path} {reason}; give what model.save("model.keras") wrote')
    startup.import_tensorflow()
    startup.check_keras()
    import keras  # noqa: PLC0415 (slow)

    from tfbdl import layers, likelihoods, metrics, models  # noqa: F401, PLC0415 (registers them)

    try:
        check_archive(path)
    except Unbelievable as error:
        raise ValueError(f"{path} cannot be loaded: {error}") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Keras': of the optimizer, which is not used
            return keras.models.load_model(path, compile=compiled)
    except Exception as error:
        raise ValueError(f"{path} cannot be loaded: {_reason(path, error)}") from None


def _reason(path: Path, error: Exception) -> str:
    import json  # noqa: PLC0415

    import keras  # noqa: PLC0415
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415

    try:
        with zipfile.ZipFile(path) as archive:
            if not {"metadata.json", "config.json"} <= set(archive.namelist()):
                return "it is a zip file, but no model"
            config = archive.read("config.json").decode(errors="replace")
            metadata = archive.read("metadata.json")
    except Exception:  # damaged bytes make zipfile and zlib raise nearly anything
        return "it is damaged; save the model again"
    try:
        made_by = json.loads(metadata)["keras_version"]
        is_newer = Version(made_by) > Version(keras.__version__)
    except (ValueError, TypeError, KeyError, InvalidVersion):
        is_newer = False
    if is_newer:
        return f"it was made by Keras {made_by}, and this is {keras.__version__}; upgrade Keras"
    last = str(error).rpartition("Exception encountered: ")[2].strip()
    line = last.splitlines()[0] if last else type(error).__name__
    missing = re.match(r"Could not locate \w+ '(\w+)'", line)
    other = re.match(r"Unrecognized keyword arguments passed to (\w+): (.*)", line)
    known = missing or other
    if known and re.search(rf'"tfbdl[\w.]*>{known[1]}"', config):
        what = f"has no {known[1]}" if missing else f"knows no {known[2]} of {known[1]}"
        return f"tfbdl {tfbdl.__version__} {what}; use the version that made the file"
    if missing:
        return f"{missing[1]} is unknown; load it in Python, where it is registered"
    return line
