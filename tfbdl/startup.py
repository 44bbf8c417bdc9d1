"""The start of a process: whether it is the `tfbdl` command, and what TensorFlow shows.

`import tfbdl` in a program of the user's leaves TensorFlow's messages alone. Where the environment
has TFBDL_QUIET=1, as in the tutorials, TensorFlow is imported with its notes on CPU features and
missing GPUs set aside; should the import fail, they are shown.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
from pathlib import Path


def is_command() -> bool:
    """Whether this process is `tfbdl` or `python -m tfbdl`."""
    name = (sys.argv or [""])[0]
    if name == "-m":  # while Python looks for the module
        words = sys.orig_argv
        return "-mtfbdl" in words or ("-m", "tfbdl") in itertools.pairwise(words)
    return Path(name).name == "tfbdl"


def is_quiet() -> bool:
    """Whether this process asked for a quiet screen."""
    return os.environ.get("TFBDL_QUIET") == "1"


def check_keras() -> None:
    """Raises ImportError, in one line, where Keras is another than this package is made for."""
    legacy = os.environ.get("TF_USE_LEGACY_KERAS", "")
    if legacy.lower() not in ("", "0", "false"):
        raise ImportError(
            f"TF_USE_LEGACY_KERAS={legacy} makes tf.keras Keras 2, whose models tfbdl does not "
            "take; unset it, and use Keras 3 by `import keras`"
        )
    try:
        import keras  # noqa: PLC0415 (slow)
    except (ImportError, ValueError):  # the backend is not installed, or unknown
        backend = _asked_backend()
        if backend == "tensorflow":
            raise
    else:
        if keras.__version__.startswith("2."):
            raise ImportError(
                f"keras {keras.__version__} is installed, and tfbdl needs Keras 3; "
                "pip install keras>=3"
            )
        backend = keras.config.backend()
    if backend != "tensorflow":
        raise ImportError(
            f"Keras is set to the backend {backend}, and tfbdl needs TensorFlow's; "
            "set KERAS_BACKEND=tensorflow before Keras is imported"
        )


def _asked_backend() -> str:
    """The backend of the environment, or of Keras' file."""
    folder = Path(os.environ.get("KERAS_HOME") or Path("~/.keras").expanduser())
    try:
        in_file = json.loads((folder / "keras.json").read_text()).get("backend")
    except (AttributeError, OSError, ValueError):
        in_file = None
    return os.environ.get("KERAS_BACKEND") or in_file or "tensorflow"


def import_tensorflow() -> None:
    """Imports TensorFlow with standard error set aside, and replays that on failure."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        screen = os.dup(2)
    except OSError:
        return
    if sys.stderr is not None:
        sys.stderr.flush()
    with tempfile.TemporaryFile() as aside:
        os.dup2(aside.fileno(), 2)
        try:
            import tensorflow  # noqa: F401, PLC0415
        except BaseException:
            aside.seek(0)
            os.write(screen, aside.read())
            raise
        finally:
            if sys.stderr is not None:
                sys.stderr.flush()
            os.dup2(screen, 2)
            os.close(screen)
