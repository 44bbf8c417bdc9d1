"""The `train.log` of `tfbdl.train` for `model.fit`."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfbdl import arguments
from tfbdl.training.checks import check_columns
from tfbdl.training.log_writer import LogWriter
from tfbdl.training.observer import Observer


class TrainLogger(Observer):
    """Writes the `train.log` of `tfbdl.train` while `model.fit` trains.

    The terms of the package's layers (kl, wd, ent: nats per data set, means over the epoch's
    batches) are measured in the training step and added to the logs of `fit`, so that `History`
    and later callbacks have them too.

    Args:
        path: the file, in an existing folder. An existing log is never written over.
        columns: the columns of the log, by default all that `fit` reports and the terms. For
            "grad_norm" see `tfbdl.train`.
        verbose: 1 prints the lines too.

    Raises:
        ValueError: if `path` already holds a log, a column is not reported, or the model is
            subclassed and its `call` takes no `training`.
        OSError: if it cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        columns: Sequence[str] | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__()
        self.path = arguments.path("path", path)
        self.columns = arguments.optional(check_columns, "columns", columns)
        self.verbose = arguments.verbosity("verbose", verbose)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._log = LogWriter(self.path, echo=_print if self.verbose else None)
        super().on_train_begin(logs)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_epoch_begin(epoch, logs)
        learning_rate = tf.convert_to_tensor(self.model.optimizer.learning_rate)
        self._log.start(epoch + 1, float(learning_rate))
        self._started = time.perf_counter()
        self._seconds: float | None = None

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._seconds = time.perf_counter() - self._started

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = {} if logs is None else logs
        logs |= self.terms()
        missing = [name for name in self.columns or () if name not in logs]
        if missing:
            raise ValueError(f"columns has {missing[0]!r}; fit reports {', '.join(logs)}")
        seconds = self._seconds
        if seconds is None:
            seconds = time.perf_counter() - self._started
        self._log.end(epoch + 1, seconds, {name: logs[name] for name in self.columns or logs})

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        super().on_train_end(logs)
        self._log.close()


def _print(text: str) -> None:
    print(text, end="", flush=True)
