"""Loading a saved model for a command."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from tfbdl import startup

if TYPE_CHECKING:
    import keras


def load_model(path: Path) -> keras.Model:
    """The model in a `.keras` file, with the package's layers known and a quiet screen.

    Raises:
        ValueError: if the file is no such model, or was made by a newer Keras.
    """
    if not zipfile.is_zipfile(path):
        reason = "is no .keras file" if path.exists() else "does not exist"
        raise ValueError(f'{path} {reason}; give what model.save("model.keras") wrote')
    startup.import_tensorflow()
    import keras  # noqa: PLC0415 (slow)

    from tfbdl import layers, likelihoods, metrics, models  # noqa: F401, PLC0415 (registers them)

    try:
        return keras.models.load_model(path)
    except Exception as error:
        raise ValueError(f"{path} cannot be loaded ({_reason(path, error)})") from None


def _reason(path: Path, error: Exception) -> str:
    import json  # noqa: PLC0415

    import keras  # noqa: PLC0415
    from packaging.version import Version  # noqa: PLC0415

    with zipfile.ZipFile(path) as archive:
        if "metadata.json" not in archive.namelist():
            return "it is a zip file, but no model"
        made_by = json.loads(archive.read("metadata.json")).get("keras_version", "0")
    if Version(made_by) > Version(keras.__version__):
        return f"it was made by Keras {made_by}, and this is {keras.__version__}; upgrade Keras"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
