"""Files that are whole or not there, whenever the process ends."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # not on Windows, where what killed processes leave stays
    fcntl = None  # type: ignore[assignment]

_UNFINISHED = ".tfbdl-{}.tmp"


def write_whole(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Calls `write` with a file that becomes `path` when it is done and on the disk.

    A kill at any moment leaves the file before or the file after.

    Raises:
        OSError: if it cannot be written.
    """
    try:
        with replacing(path) as file:
            write(file)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(
            error.errno or errno.EIO,
            f"cannot be written, {reason}; what was there stays",
            str(path),
        ) from None


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new file, which becomes `path` when the context has ended well and it is on the disk.

    Until then it has a name that nobody can foretell, and is locked: files of this kind that nobody
    holds have been left by killed processes, and go.

    Raises:
        OSError: if it cannot be written, or `path` is a device or a pipe.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    _remove_abandoned(path.parent)
    with _new_file(path.parent) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:
                file.close()
            os.replace(file.name, path)
        finally:
            Path(file.name).unlink(missing_ok=True)
    _sync(path.parent)


def new_folder(path: Path, write: Callable[[Path], Any]) -> None:
    """Calls `write` with the path of a folder to make, which becomes `path` when it is done.

    Whatever `write` raises leaves nothing behind; a kill may leave a folder of a name of its own.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = path.with_name(_UNFINISHED.format(secrets.token_hex(8)))
    try:
        write(folder)
        os.rename(folder, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _sync(path.parent)


def _new_file(folder: Path) -> IO[bytes]:
    """A file of a new name, held until it is closed; with the permissions that umask leaves."""
    while True:
        file = open(folder / _UNFINISHED.format(secrets.token_hex(8)), "xb")  # noqa: SIM115
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.exists(file.name):
            return file
        file.close()  # another process took it for abandoned before it was held


def _remove_abandoned(folder: Path) -> None:
    if fcntl is None:
        return
    for path in folder.glob(_UNFINISHED.format("*")):
        with suppress(OSError), open(os.open(path, os.O_RDWR | os.O_NOFOLLOW), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Puts the names in a folder on the disk, where a system can do so."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
