"""What networks say of the test images along their training: one file an epoch, float16."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import keras
import numpy as np
import scipy.stats

import tfbdl
from tfbdl import metrics
from tfbdl.whole_file import write_whole
from tutorials.cifar10 import problem

COSTS = "cpu_seconds.json"
TEMPERATURES = "temperatures.json"
SMALLEST = 1e-6
"""Least probability whose logarithm is taken: float16, in which they are kept, makes some 0."""
SHIFTED_FUNCTIONS = 10
"""Functions that are drawn for corrupted images, of which there are many."""


class Predicted(NamedTuple):
    """What is said of N images.

    Attributes:
        p: probabilities of the classes, shape (N, 10).
        expected_entropy: the mean over functions of the entropy of what each says, shape (N,), in
            nats.
    """

    p: np.ndarray
    expected_entropy: np.ndarray

    @property
    def mutual_information(self) -> np.ndarray:
        """The mutual information of class and function, (N,), in nats; 0 of a single function."""
        return scipy.stats.entropy(self.p, axis=1) - self.expected_entropy


class Nearness(NamedTuple):
    """How near to HMC: the part of images with its class, and the mean total variation from it."""

    agreement: float
    total_variation: float


def nearness(p: np.ndarray, hmc: np.ndarray) -> Nearness:
    """How near probabilities are on the first images, of which HMC's are known."""
    known = p[: len(hmc)]
    return Nearness(metrics.agreement(known, hmc), metrics.total_variation(known, hmc))


class TestPredictions(keras.callbacks.Callback):
    """Keeps what is said of the test images after some epochs and the last.

    Args:
        x: the test images.
        folder: the folder of the run, for `predictions/epoch_0001.npz` and so on.
        every: epochs between two files.
        start: epochs to leave out at the beginning.
        num_samples: functions that are drawn; 0 takes the weights as they are.
        posterior: gives what is asked of the model that trains.
    """

    def __init__(
        self,
        x: np.ndarray,
        folder: Path,
        every: int,
        *,
        start: int = 0,
        num_samples: int = 0,
        posterior: Callable[[keras.Model], Any] = lambda model: model,
    ) -> None:
        super().__init__()
        self.x, self.folder, self.every, self.start = x, folder, every, start
        self.num_samples, self.posterior = num_samples, posterior

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        behind = epoch + 1 - self.start
        if (behind > 0 and behind % self.every == 0) or epoch + 1 == self.params["epochs"]:
            keep(self.folder, epoch + 1, self.posterior(self.model), self.x, self.num_samples)


class Costs(keras.callbacks.Callback):
    """Writes the seconds of a processor that the steps of each epoch take.

    Args:
        folder: the folder of the run.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._begun = time.process_time()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        note(self.folder / COSTS, epoch + 1, round(time.process_time() - self._begun, 1))


class KineticTemperatures(keras.callbacks.Callback):
    """Writes how hot a chain is after each epoch, by weight tensor.

    Args:
        folder: the folder of the run.
        cycle: epochs of a cycle, the last of which is left out: velocities remember some steps,
            and the rate there is nearly 0.
    """

    def __init__(self, folder: Path, cycle: int | None = None) -> None:
        super().__init__()
        self.folder, self.cycle = folder, cycle

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self.cycle and (epoch + 1) % self.cycle == 0:
            return
        temperatures = self.model.optimizer.kinetic_temperatures()
        rounded = {path: round(t, 3) for path, t in temperatures.items()}
        note(self.folder / TEMPERATURES, epoch + 1, rounded)


def means(given: Iterable[Predicted]) -> Iterator[Predicted]:
    """The mean of the first, of the first two, and so on."""
    sums = itertools.accumulate(
        given, lambda a, b: Predicted(a.p + b.p, a.expected_entropy + b.expected_entropy)
    )
    for number, total in enumerate(sums, start=1):
        yield Predicted(total.p / number, total.expected_entropy / number)


def keep(folder: Path, epoch: int, model: Any, x: np.ndarray, num_samples: int = 0) -> None:
    """Writes what a model or posterior says after an epoch, as the mean over drawn functions."""
    prediction = predict(model, x, num_samples)
    arrays = {"p": prediction.mean}
    if num_samples:
        arrays["expected_entropy"] = cast(np.ndarray, prediction.expected_entropy)
    write(predictions_file(folder, epoch), arrays)


def kept(folder: Path) -> dict[int, Predicted]:
    """What is kept of each epoch of a run that has some."""
    return {epoch: _read(predictions_file(folder, epoch)) for epoch in kept_epochs(folder)}


def kept_epochs(folder: Path) -> list[int]:
    """The epochs that have predictions."""
    return sorted(int(path.stem.split("_")[1]) for path in folder.glob("predictions/epoch_*.npz"))


def predictions_file(folder: Path, epoch: int) -> Path:
    """The file of an epoch of a run."""
    return folder / "predictions" / f"epoch_{epoch:04d}.npz"


def _read(path: Path) -> Predicted:
    arrays = read(path)
    p = arrays["p"]
    of_one = scipy.stats.entropy(p, axis=1)
    return Predicted(p, arrays.get("expected_entropy", of_one))


def keep_shifted(folder: Path, epoch: int, model: Any, num_samples: int = 0) -> None:
    """Keeps p(y | x) of corrupted test images, once a run has ended at an epoch.

    The file has an array of shape (5, N, 10) for each kind of corruption.
    """
    path = shifted_file(folder, epoch)
    if path.exists():
        return
    number = min(num_samples, SHIFTED_FUNCTIONS)
    answers: dict[str, list[np.ndarray]] = {}
    for kind, _, x in problem.shifted():
        answers.setdefault(kind, []).append(predict(model, x, number).mean)
    write(path, {kind: np.array(p) for kind, p in answers.items()})


def kept_shifted(folder: Path, epoch: int) -> dict[str, np.ndarray] | None:
    """The answers of `keep_shifted`, float32; None where there are none."""
    path = shifted_file(folder, epoch)
    return read(path) if path.exists() else None


def shifted_file(folder: Path, epoch: int) -> Path:
    """The file of answers on corrupted images."""
    return folder / f"shifted_{epoch:04d}.npz"


def predict(model: Any, x: np.ndarray, num_samples: int) -> tfbdl.Prediction:
    """`tfbdl.predict` in batches that fit into caches."""
    return tfbdl.predict(
        model, x, num_samples, batch_size=250, seed=0, jit_compile=False, verbose=0
    )


def write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes arrays as float16."""
    halves = {name: array.astype(np.float16) for name, array in arrays.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda file: np.savez_compressed(file, **halves))  # type: ignore[arg-type]


def read(path: Path) -> dict[str, np.ndarray]:
    """The arrays of `write`, float32."""
    with np.load(path) as arrays:
        return {name: arrays[name].astype(np.float32) for name in arrays}


def note(path: Path, epoch: int, value: Any) -> None:
    """Keeps something of an epoch; one that is repeated after a stop counts once."""
    text = json.dumps({**notes(path), epoch: value}, indent=1) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda file: file.write(text.encode()))


def notes(path: Path) -> dict[int, Any]:
    """What is kept in a file of `note`, by epoch."""
    return {int(e): v for e, v in json.loads(path.read_text()).items()} if path.exists() else {}
