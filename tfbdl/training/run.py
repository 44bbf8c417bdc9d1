"""The folder of a training run: its `train.log`, its checkpoint, and how it is taken up again."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import keras

from tfbdl import kl_term
from tfbdl.run_folder import held
from tfbdl.training import checkpoint, workers
from tfbdl.training.description import Description, describe, first_change
from tfbdl.training.log import epoch_header, epoch_line
from tfbdl.training.log_writer import LogWriter

LOG = "train.log"
CHECKPOINT = "checkpoint.npz"
_RATE = "optimizer.learning_rate"

_rates: weakref.WeakKeyDictionary[keras.optimizers.Optimizer, tuple[str, str]]
_rates = weakref.WeakKeyDictionary()
"""The learning rates with which optimizers came to their first run, and left their last one."""


@runtime_checkable
class Stateful(Protocol):
    """A callback with a state that belongs in the checkpoint."""

    def get_state(self) -> checkpoint.State:
        """The state: at least one array."""
        ...

    def set_state(self, state: checkpoint.State) -> None:
        """Restores the state from `get_state`."""
        ...


class Run:
    """Records epochs; without a folder, and on workers other than the chief, it only echoes them.

    An epoch is written to the log first and becomes the checkpoint then. Whoever resumes cuts the
    log back to the checkpoint, so that each epoch stands there once.
    """

    def __init__(
        self,
        model: keras.Model,
        folder: Path | None,
        settings: Mapping[str, Any],
        echo: Callable[[str], None],
        *,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        changed: Collection[str] = (),
    ) -> None:
        self.model = model
        self.folder = folder
        self.stateful = [c for c in callbacks if isinstance(c, Stateful)]
        names = [type(c).__name__ for c in self.stateful]
        self.settings: dict[str, Any] = {"callbacks": names, **settings}
        self.changed = changed
        self.description = _description(model)
        self.echo = echo
        self.epochs_done = 0
        self.log: LogWriter | None = None
        self._strategy = model.distribute_strategy
        self._writes = workers.is_chief(self._strategy)
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
        if self.folder is not None:
            self._save(epoch)
        self.epochs_done = epoch

    def close(self) -> None:
        """Leaves a log of whole epochs."""
        if _RATE in self.description:
            _rates[self.model.optimizer] = self.description[_RATE], describe(self.model)[_RATE]
        if self.log is not None:
            self.log.close()

    @property
    def last_good(self) -> str:
        """The place of the state that is kept, for error messages."""
        if self.folder is None:
            return "give a savedir to keep checkpoints"
        return f"{self.folder / CHECKPOINT} holds the model after epoch {self.epochs_done}"

    def _open(self, folder: Path) -> None:
        path, log = folder / CHECKPOINT, folder / LOG
        begun = self._resume(path)
        if self._writes:
            if begun and self.epochs_done == 0:
                log.unlink(missing_ok=True)
            self.log = LogWriter(log, keep_epochs=self.epochs_done, echo=self.echo)
        if not begun:
            self._save(0)

    def _resume(self, path: Path) -> bool:
        """Whether there was a checkpoint to go on from."""
        content = None
        if workers.are_several(self._strategy):
            content = path.read_bytes() if self._writes and path.exists() else b""
            content = workers.from_chief(self._strategy, content)
        if not (path.exists() if content is None else content):
            return False
        older: dict[str, Any] = {"callbacks": [], "columns": self.settings.get("columns")}
        kept = {**older, **checkpoint.read_meta(path, content)}
        for name, value in self.settings.items():
            if kept.get(name) != value:
                raise ValueError(
                    f"savedir={self.folder} holds a run with {name}={kept.get(name)}, not "
                    f"{value}; name another savedir"
                )
        change = first_change(kept.get("made of", {}), self.description, self.changed)
        if change is not None:
            raise ValueError(
                f"savedir={self.folder} holds a run with {change}; name another savedir, or say "
                "what you have changed on purpose, as in changed=['optimizer']"
            )
        states = checkpoint.read_states(path, content)
        if not isinstance(kept.get("epoch"), int) or len(states) != len(self.stateful):
            raise checkpoint.CheckpointError(f"{path} lacks its epoch, or the state of a callback")
        kl_weights = [weight.numpy() for weight in kl_term.weights(self.model)]
        checkpoint.restore(path, self.model, content, optimizer="optimizer" not in self.changed)
        for weight, value in zip(kl_term.weights(self.model), kl_weights, strict=True):
            weight.assign(value)  # the same, or changed on purpose
        for callback, state in zip(self.stateful, states, strict=True):
            callback.set_state(state)
        self.epochs_done = kept["epoch"]
        return True

    def _save(self, epoch: int) -> None:
        assert self.folder is not None
        path = self.folder / CHECKPOINT if self._writes else None
        meta = {**self.settings, "made of": self.description, "epoch": epoch}
        states = [callback.get_state() for callback in self.stateful]
        checkpoint.save(path, self.model, meta, states)


@contextmanager
def open_run(
    model: keras.Model,
    savedir: str | os.PathLike[str] | None,
    settings: Mapping[str, Any],
    echo: Callable[[str], None],
    *,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    changed: Collection[str] = (),
) -> Iterator[Run]:
    """The run in `savedir`, put into `model` and `callbacks` if it has begun, and closed at last.

    What is among `changed` may be other than in that run; an optimizer that is begins anew.

    Raises:
        OSError: if the folder or its files cannot be written, or another process writes them.
        ValueError: if it holds a run with other settings or callbacks, or of another model.
    """
    folder = None if savedir is None else Path(savedir)
    with held(folder if workers.is_chief(model.distribute_strategy) else None):
        run = Run(model, folder, settings, echo, callbacks=callbacks, changed=changed)
        try:
            yield run
        except BaseException:
            with suppress(OSError):  # an error here would hide the first one
                run.close()
            raise
        run.close()


def _description(model: keras.Model) -> Description:
    """The description of the model at its first run: callbacks may have changed the rate since."""
    description = describe(model)
    came, left = _rates.get(model.optimizer, ("", ""))
    if _RATE in description and description[_RATE] == left:
        description[_RATE] = came
    return description
