"""The folder of a training run: its `train.log`, its checkpoint, and how it is taken up again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import keras

from tfbdl.training import checkpoint
from tfbdl.training.log import epoch_header, epoch_line
from tfbdl.training.log_writer import LogWriter

LOG = "train.log"
CHECKPOINT = "checkpoint.npz"


class Run:
    """Records epochs; without a folder it only echoes them.

    An epoch is written to the log first and becomes the checkpoint then. Whoever resumes cuts the
    log back to the checkpoint, so that each epoch stands there once.
    """

    def __init__(
        self,
        model: keras.Model,
        folder: Path | None,
        settings: Mapping[str, int],
        echo: Callable[[str], None],
    ) -> None:
        self.model = model
        self.folder = folder
        self.settings = dict(settings)
        self.echo = echo
        self.epochs_done = 0
        self.log: LogWriter | None = None
        if folder is not None:
            self._open(folder)

    def start(self, epoch: int, learning_rate: float) -> None:
        """Records that `epoch` begins."""
        if self.log is None:
            self.echo(epoch_header(epoch, learning_rate))
        else:
            self.log.start(epoch, learning_rate)

    def end(self, epoch: int, seconds: float, values: Mapping[str, float]) -> None:
        """Records that `epoch` ended, and where the model stands."""
        if self.log is None:
            self.echo(epoch_line(epoch, seconds, values))
        else:
            self.log.end(epoch, seconds, values)
            self._save(epoch)
        self.epochs_done = epoch

    def close(self) -> None:
        """Leaves a log of whole epochs."""
        if self.log is not None:
            self.log.close()

    @property
    def last_good(self) -> str:
        """What an error message says of the state that is kept."""
        if self.folder is None:
            return "give a savedir to keep checkpoints"
        return f"{self.folder / CHECKPOINT} holds the model after epoch {self.epochs_done}"

    def _open(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(
                error.errno, f"savedir cannot be made ({error.strerror}); name another", str(folder)
            ) from None
        path, log = folder / CHECKPOINT, folder / LOG
        if path.exists():
            self.epochs_done = self._resume(path)
            if self.epochs_done == 0:
                log.unlink(missing_ok=True)
        self.log = LogWriter(log, keep_epochs=self.epochs_done, echo=self.echo)
        if not path.exists():
            self._save(0)

    def _resume(self, path: Path) -> int:
        found = checkpoint.read_meta(path)
        for name, value in self.settings.items():
            if found.get(name) != value:
                raise ValueError(
                    f"savedir={self.folder} holds a run with {name}={found.get(name)}, not "
                    f"{value}; name another savedir"
                )
        checkpoint.restore(path, self.model)
        return int(found["epoch"])

    def _save(self, epoch: int) -> None:
        assert self.folder is not None
        checkpoint.save(self.folder / CHECKPOINT, self.model, {**self.settings, "epoch": epoch})


@contextmanager
def open_run(
    model: keras.Model,
    savedir: str | os.PathLike[str] | None,
    settings: Mapping[str, int],
    echo: Callable[[str], None],
) -> Iterator[Run]:
    """The run in `savedir`, put into `model` if it has begun, and closed whatever happens.

    Raises:
        OSError: if the folder or its files cannot be written.
        ValueError: if it holds a run with other settings or of another model.
    """
    run = Run(model, None if savedir is None else Path(savedir), settings, echo)
    try:
        yield run
    finally:
        run.close()
