"""The folder of a run, which one process writes at a time."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows, where nothing is held
    fcntl = None  # type: ignore[assignment]


@contextmanager
def held(folder: Path | None) -> Iterator[None]:
    """Makes the folder and keeps other runs off it; an end by any means lets it go.

    Raises:
        OSError: if it cannot be made, or another run holds it.
    """
    if folder is None:
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            error.errno, f"savedir cannot be made ({error.strerror}); name another", str(folder)
        ) from None
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BlockingIOError(
            errno.EAGAIN, "another run writes into this savedir; name another", str(folder)
        ) from None
    except OSError:  # a file system without locks
        pass
