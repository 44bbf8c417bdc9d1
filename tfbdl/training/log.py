"""The format of ``train.log``, the text record of a training run, and its reader.

An epoch is a blank line, a header written when it starts and a train line written when it ends::

    Epoch 1 start, learning rate 0.001000
    train: epoch 1, (0.535 secs), elbo -400.160945
"""

import codecs
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

_MAX_LINE = 16384  # bytes; bounds the memory that a file of another kind can take
_NUMBER = r"-?(?:[0-9]+\.[0-9]{6}|inf|nan)"
_COLUMN = rf"[^\s,]+ {_NUMBER}"
_HEADER = re.compile(rf"Epoch ([0-9]{{1,18}}) start, learning rate ({_NUMBER})")
_TRAIN = re.compile(
    r"train: epoch ([0-9]{1,18}), \(([0-9]+\.[0-9]{3}) secs\), "
    rf"({_COLUMN}(?:, {_COLUMN})*)"
)
_EDITOR_NUMBER = re.compile(r"^ *[0-9]+(?: |$)")


class LogError(ValueError):
    """A file is not a ``train.log``; the message gives its path, line and the expected form."""


@dataclass(frozen=True, eq=False)
class TrainLog:
    """The E complete epochs of a ``train.log``: arrays of shape (E,).

    ``epochs`` is int64 and increases, ``seconds`` is the wall time of each epoch, and ``metrics``
    holds the values by name in the order of the columns.
    """

    epochs: np.ndarray
    learning_rates: np.ndarray
    seconds: np.ndarray
    metrics: dict[str, np.ndarray]


def epoch_header(epoch: int, learning_rate: float) -> str:
    """Returns the blank line and the header that start ``epoch``, newlines included."""
    return f"\nEpoch {epoch:d} start, learning rate {float(learning_rate):f}\n"


def epoch_line(epoch: int, seconds: float, metrics: Mapping[str, float]) -> str:
    """Returns the train line that ends ``epoch``, newline included; metrics may be nan or inf.

    Raises:
        ValueError: if the line could not be read back.
    """
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"seconds is {seconds}; give a finite time of at least 0")
    if not metrics:
        raise ValueError("metrics is empty; give at least one metric to log")
    for name in metrics:
        if not (name.isprintable() and re.fullmatch(_COLUMN, f"{name} nan")):
            raise ValueError(f"metric name {name!r}: use printable text without commas or spaces")
    columns = ", ".join(f"{name} {float(value):f}" for name, value in metrics.items())
    return f"train: epoch {epoch:d}, ({abs(seconds):.3f} secs), {columns}\n"


_NUMBERS = (0.0, float("nan"), float("inf"))
_HEADERS = [epoch_header(1, number).strip() for number in _NUMBERS]
_TRAIN_LINES = [epoch_line(1, 0, {"x": number}).strip() for number in _NUMBERS]


def read_log(path: str | os.PathLike[str]) -> TrainLog:
    """Reads the complete epochs of a ``train.log``.

    Line numbers that an editor put in front of the lines are ignored. An end cut off by a crash
    is dropped: a last line without newline counts only when each number has its six decimals and
    the columns are those of the epochs before it.

    Raises:
        LogError: if the file cannot be read or a line does not belong to the format.
    """
    from tfbdl import arguments  # noqa: PLC0415 (starts TensorFlow, which this module is free of)

    return read_lines(arguments.path("path", path)).log()


class LogReader:
    """Takes the lines of a log one by one and refuses the first that does not belong."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.line = 0
        self.started: tuple[int, float] | None = None
        self.names: tuple[str, ...] = ()
        self.epochs: list[int] = []
        self.rows: list[tuple[float, ...]] = []  # learning rate, seconds, metrics

    def feed(self, raw: bytes) -> None:
        """Takes one line; without its newline it may have been cut at any byte."""
        self.line += 1
        whole = raw.endswith(b"\n")
        try:
            text = codecs.utf_8_decode(raw, "strict", whole)[0].rstrip("\r\n")
        except UnicodeDecodeError:
            self._refuse("UTF-8 text", repr(raw))
        if len(raw) > _MAX_LINE or not text.isprintable():
            self._refuse(f"printable text of at most {_MAX_LINE} bytes", text)
        text = _EDITOR_NUMBER.sub("", text)
        if not text.strip() or (not whole and self._is_cut(text)):
            return
        if self.started is None:
            self._start(text)
        else:
            self._end(text, *self.started)

    def log(self) -> TrainLog:
        """Returns the complete epochs taken so far."""
        table = np.array(self.rows, float).reshape(len(self.rows), 2 + len(self.names))
        metrics = dict(zip(self.names, table.T[2:], strict=True))
        return TrainLog(np.array(self.epochs, np.int64), table[:, 0], table[:, 1], metrics)

    def _start(self, text: str) -> None:
        match = _HEADER.fullmatch(text)
        if not match:
            self._refuse("'Epoch 1 start, learning rate 0.001000'", text)
        if self.epochs and int(match[1]) <= self.epochs[-1]:
            self._refuse(f"an epoch after {self.epochs[-1]}", text)
        self.started = int(match[1]), float(match[2])

    def _end(self, text: str, epoch: int, rate: float) -> None:
        match = _TRAIN.fullmatch(text)
        if not match or int(match[1]) != epoch:
            self._refuse(f"'train: epoch {epoch}, (0.100 secs), name 1.000000'", text)
        names, values = zip(*(column.split(" ") for column in match[3].split(", ")), strict=True)
        if names != (self.names or tuple(dict.fromkeys(names))):
            self._refuse(f"the columns {', '.join(self.names) or 'with different names'}", text)
        self.names, self.started = names, None
        self.epochs.append(epoch)
        self.rows.append((rate, float(match[2]), *map(float, values)))

    def _is_cut(self, text: str) -> bool:
        """Whether ``text`` is the beginning of the expected line, the whole one excepted."""
        pattern, examples = (_HEADER, _HEADERS) if self.started is None else (_TRAIN, _TRAIN_LINES)
        names = tuple(column.split(" ")[0] for column in text.split(", ")[2:])
        if pattern is _TRAIN and pattern.fullmatch(text) and names == self.names:
            return False
        return any(pattern.fullmatch(text + x[i:]) for x in examples for i in range(len(x) + 1))

    def _refuse(self, expected: str, text: str) -> NoReturn:
        raise LogError(f"{self.path}, line {self.line}: expected {expected}, got {text[:80]!r}")


def read_lines(path: str | os.PathLike[str]) -> LogReader:
    """Returns the reader of all lines of a file, ready for more; LogError as in `read_log`."""
    reader = LogReader(path)
    try:
        with open(path, "rb") as file:
            while line := file.readline(_MAX_LINE + 1):
                reader.feed(line)
    except OSError as error:
        message = f"{path}: cannot read, {error.strerror}; give a train.log file"
        raise LogError(message) from None
    return reader
