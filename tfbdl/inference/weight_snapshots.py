"""Keeps the weights along a training: samples, where an optimizer samples the posterior."""

from __future__ import annotations

import os
from typing import Any

import keras
import numpy as np

from tfbdl import arguments
from tfbdl.arguments import integer, optional, positive_integer
from tfbdl.as_call import as_call
from tfbdl.flat_model import FlatModel
from tfbdl.keras_private_training import batches_seen, schedule_of
from tfbdl.likelihoods import check_metrics
from tfbdl.models.ensemble import WeightEnsemble
from tfbdl.models.reweighted import floats
from tfbdl.npz_file import numbers, read_arrays, write_arrays
from tfbdl.optimizers import CyclicalSchedule
from tfbdl.training import workers

_PATTERN = "sample_*.npz"


class WeightSnapshots(keras.callbacks.Callback):
    """Keeps the weights after every `every`-th epoch behind `start`; for `fit` and `tfbdl.train`.

    Under a `CyclicalSchedule` epochs that end in its exploring part are left out.

    Args:
        start: epochs to leave out at the beginning, while the chain is on its way.
        every: epochs between two samples; the more, the less these are correlated.
        savedir: folder for the samples, one file each, so that memory does not grow and a stopped
            run loses none; where there are several workers, the chief writes them. None keeps them
            in memory.

    Attributes:
        epochs: the epochs whose weights are kept, counted from 1.

    Raises:
        ValueError: if an argument is out of its range, or a run begins anew in a folder that holds
            the samples of another.
    """

    def __init__(
        self, start: int = 0, every: int = 1, *, savedir: str | os.PathLike[str] | None = None
    ) -> None:
        super().__init__()
        self.start = integer("start", start, least=0)
        self.every = positive_integer("every", every)
        self.savedir = optional(arguments.path, "savedir", savedir)
        self._kept: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def __repr__(self) -> str:
        return as_call(self)

    @property
    def epochs(self) -> list[int]:
        if self.savedir is None:
            return sorted(self._kept)
        return sorted(int(path.stem.split("_")[1]) for path in self.savedir.glob(_PATTERN))

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights, shape (K, D), and the floating variables that are not trained, (K, E).

        Raises:
            ValueError: if there are none, or a file of one is damaged.
        """
        if not self.epochs:
            raise ValueError(f"start={self.start}: no epoch has been kept; train longer")
        members, states = zip(*map(self._read, self.epochs), strict=True)
        return np.stack(members), np.stack(states)

    def ensemble(self) -> WeightEnsemble:
        """The samples as a model whose functions are drawn by `tfbdl.predict`.

        Raises:
            ValueError: if there are none, or a file of one is damaged.
        """
        ensemble = WeightEnsemble(self._flat.model, *self.arrays())
        if self.model.compiled:
            ensemble.take_loss(self.model)
        return ensemble

    def set_model(self, model: keras.Model) -> None:
        check_metrics(model)
        super().set_model(model)
        if model.built:
            self._flat = FlatModel(model)
            self._flat.check_no_scales()

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        if self.savedir is not None and workers.is_chief(self.model.distribute_strategy):
            self.savedir.mkdir(parents=True, exist_ok=True)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if epoch == 0 and self.savedir is not None and self.epochs:
            raise ValueError(f"savedir={self.savedir} holds samples of another run; name another")

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        behind = epoch + 1 - self.start
        if behind <= 0 or behind % self.every or not self._samples():
            return
        self._flat = FlatModel(self.model)
        self._write(epoch + 1, self._flat.theta.numpy(), floats(self._flat.state).numpy())

    def _samples(self) -> bool:
        schedule = schedule_of(self.model.optimizer)
        if not isinstance(schedule, CyclicalSchedule):
            return True
        return bool(schedule.samples(batches_seen(self.model.optimizer) - 1))

    def _write(self, epoch: int, member: np.ndarray, state: np.ndarray) -> None:
        if self.savedir is None:
            self._kept[epoch] = member, state
            return
        if not workers.is_chief(self.model.distribute_strategy):
            return
        path = self.savedir / f"sample_{epoch:08d}.npz"
        write_arrays(path, {"member": member, "state": state})

    def _read(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        if self.savedir is None:
            return self._kept[epoch]
        path = self.savedir / f"sample_{epoch:08d}.npz"
        try:
            return read_arrays(path, lambda file: (numbers(file, "member"), numbers(file, "state")))
        except ValueError as error:
            raise ValueError(f"{path} is not a readable sample ({error}); remove it") from None
