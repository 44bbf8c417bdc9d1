"""Files that are whole or not there, whenever the process ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def write_whole(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Calls `write` with a file that becomes `path` when it is done and on the disk.

    A kill at any moment leaves the file before or the file after.

    Raises:
        OSError: if it cannot be written.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
