"""Writes ``train.log`` so that a kill at any moment leaves a log that can be read."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from tfbdl.run_folder import HeldFile
from tfbdl.training.log import epoch_header, epoch_line, read_lines, read_log
from tfbdl.whole_file import replacing


class LogWriter(AbstractContextManager["LogWriter"]):
    """Appends epochs to a ``train.log`` so that a kill at any time leaves a readable file.

    Args:
        path: the file to write, in an existing directory.
        keep_epochs: complete epochs of an existing log to keep, when resuming a run; what follows
            them is removed. The default 0 starts a run and never touches an existing log.
        echo: called with each text once it is on disk, for example to print it; None: nothing.

    Raises:
        ValueError: if a new run would write into a log, or a log has fewer epochs than to keep.
        OSError: if the path cannot be written, or another process writes it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        keep_epochs: int = 0,
        echo: Callable[[str], None] | None = None,
    ) -> None:
        self.path = Path(path)
        self._echo = echo
        try:
            if keep_epochs:
                _keep(self.path, keep_epochs)
            self._held = HeldFile(self.path)
            if not keep_epochs:
                if len(read_log(path).epochs):
                    raise ValueError(
                        f"{path}: already has a log; resume that run or give another path"
                    )
                os.truncate(self.path, 0)
        except BlockingIOError:  # says enough
            raise
        except OSError as error:
            raise _cannot_write(path, error) from None
        self._reader = read_lines(path)
        self._whole = self.path.stat().st_size

    def start(self, epoch: int, learning_rate: float) -> None:
        """Writes the header of ``epoch``; LogError if the epoch before it has not ended."""
        self._write(epoch_header(epoch, learning_rate))

    def end(self, epoch: int, seconds: float, metrics: Mapping[str, float]) -> None:
        """Writes the train line of the started ``epoch``; LogError if the columns changed."""
        self._write(epoch_line(epoch, seconds, metrics))

    def close(self) -> None:
        """Removes a header whose train line was not written: the log ends with a whole epoch.

        Raises:
            OSError: if the log is gone or cannot be written.
        """
        try:
            if self.path.stat().st_size != self._whole:
                os.truncate(self.path, self._whole)
        except OSError as error:
            raise _cannot_write(self.path, error) from None
        self._reader.started = None
        self._held.release()

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        with suppress(OSError) if kind else nullcontext():  # an error here would hide the first one
            self.close()

    def _write(self, text: str) -> None:
        for line in text.splitlines(keepends=True):
            self._reader.feed(line.encode())
        try:
            with open(self.path, "r+b") as file:
                file.seek(0, os.SEEK_END)
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise _cannot_write(self.path, error) from None
        if self._reader.started is None:
            self._whole = self.path.stat().st_size
        if self._echo:
            self._echo(text)


def _cannot_write(path: str | os.PathLike[str], error: OSError) -> OSError:
    reason = "it or its folder is gone" if error.errno == errno.ENOENT else error.strerror
    message = f"cannot write the log, {reason}; give a writable path"
    return OSError(error.errno, message, str(path))


def _keep(path: Path, keep_epochs: int) -> None:
    """Reduces the log to its first epochs; a kill leaves either the old file or the new one."""
    log = read_log(path)
    if not 0 < keep_epochs <= len(log.epochs):
        raise ValueError(
            f"keep_epochs is {keep_epochs}, but {path} has {len(log.epochs)} complete epochs"
        )
    text = ""
    for i in range(keep_epochs):
        metrics = {name: values[i] for name, values in log.metrics.items()}
        text += epoch_header(log.epochs[i], log.learning_rates[i])
        text += epoch_line(log.epochs[i], log.seconds[i], metrics)
    if path.read_bytes() != text.encode():
        with replacing(path) as file:
            file.write(text.encode())
