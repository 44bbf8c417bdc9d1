"""What networks say of the test images along their training: one file an epoch, float16."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np

import tfbdl
from tfbdl.whole_file import write_whole
from tutorials.cifar10 import problem

SMALLEST = 1e-6
"""Least probability whose logarithm is taken: float16, in which they are kept, makes some 0."""


class TestPredictions(keras.callbacks.Callback):
    """Keeps p(y | x) of the test images, shape (10,000, 10), after some epochs and the last.

    Args:
        x: the test images.
        folder: for `epoch_0001.npy` and so on.
        every: epochs between two files.
        num_samples: functions that are drawn; 0 takes the weights as they are.
    """

    def __init__(self, x: np.ndarray, folder: Path, every: int = 1, num_samples: int = 0) -> None:
        super().__init__()
        self.x, self.folder, self.every, self.num_samples = x, folder, every, num_samples

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if (epoch + 1) % self.every == 0 or epoch + 1 == self.params["epochs"]:
            keep(self.folder, epoch + 1, probabilities(self.model, self.x, self.num_samples))


class KineticTemperatures(keras.callbacks.Callback):
    """Writes how hot a chain is after each epoch, by weight tensor: a line of JSON.

    Args:
        path: of the file, which grows.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        temperatures = self.model.optimizer.kinetic_temperatures()
        line = {"epoch": epoch + 1, **{path: round(t, 3) for path, t in temperatures.items()}}
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def probabilities(model: Any, x: np.ndarray, num_samples: int = 0, seed: int = 0) -> np.ndarray:
    """The predictive probabilities of a model or posterior, averaged over drawn functions."""
    prediction = tfbdl.predict(
        model, x, num_samples, batch_size=250, seed=seed, jit_compile=False, verbose=0
    )
    return prediction.mean


def keep(folder: Path, epoch: int, p: np.ndarray) -> None:
    """Writes the file of an epoch."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"epoch_{epoch:04d}.npy"
    write_whole(path, lambda file: np.save(file, p.astype(np.float16)))


def kept(folder: Path) -> dict[int, np.ndarray]:
    """The predictions of each epoch that has some, float32."""
    paths = sorted(folder.glob("epoch_*.npy"))
    return {int(path.stem.split("_")[1]): np.load(path).astype(np.float32) for path in paths}


def keep_shifted(folder: Path, epoch: int, model: Any, num_samples: int = 0) -> None:
    """Keeps p(y | x) of corrupted test images, once a run has ended at an epoch.

    The file has an array of shape (5, N, 10) for each kind of corruption. They are many images:
    half of `num_samples` functions are drawn.
    """
    path = shifted_file(folder, epoch)
    if path.exists():
        return
    answers: dict[str, list[np.ndarray]] = {}
    for kind, _, x in problem.shifted():
        answers.setdefault(kind, []).append(probabilities(model, x, num_samples // 2))
    arrays = {kind: np.array(p, np.float16) for kind, p in answers.items()}
    write_whole(path, lambda file: np.savez_compressed(file, **arrays))  # type: ignore[arg-type]


def kept_shifted(folder: Path, epoch: int) -> dict[str, np.ndarray] | None:
    """The answers of `keep_shifted`, float32; None where there are none."""
    path = shifted_file(folder, epoch)
    if not path.exists():
        return None
    with np.load(path) as arrays:
        return {kind: arrays[kind].astype(np.float32) for kind in arrays}


def shifted_file(folder: Path, epoch: int) -> Path:
    """The file of answers on corrupted images."""
    return folder / f"shifted_{epoch:04d}.npz"
