"""Locks on folders of runs and on files, for one writing process at a time."""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar
from weakref import WeakValueDictionary

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
        _lock(descriptor, folder, "into this savedir")
        yield
    finally:
        os.close(descriptor)


class HeldFile:
    """A file that this process keeps others from writing, until `release` or its end.

    Args:
        path: the path of the file, which is made if there is none.

    Raises:
        OSError: if it cannot be opened, or another process holds it.
    """

    _locks: ClassVar[WeakValueDictionary[tuple[int, int], _Lock]] = WeakValueDictionary()

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        lock = _Lock(descriptor)
        file = os.fstat(descriptor)
        key = file.st_dev, file.st_ino
        self._lock: _Lock | None = self._locks.get(key)
        if self._lock is None and fcntl is not None:
            _lock(descriptor, path, "this file")
            self._lock = self._locks[key] = lock

    def release(self) -> None:
        """Lets other processes write it, if nothing else in this one holds it."""
        self._lock = None


class _Lock:
    """The owner of a descriptor, which closes it when nobody needs it, and so ends its lock."""

    def __init__(self, descriptor: int) -> None:
        weakref.finalize(self, os.close, descriptor)


def _lock(descriptor: int, path: Path, what: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BlockingIOError(
            errno.EAGAIN, f"another run writes {what}; name another", str(path)
        ) from None
    except OSError:  # a file system without locks
        pass
