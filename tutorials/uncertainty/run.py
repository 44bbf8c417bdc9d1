"""A data set, a seed and a folder: what methods train with, and the seconds that they take."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

import tfbdl
from tfbdl.data import load
from tfbdl.whole_file import write_whole
from tutorials.uncertainty.networks import compiled, lenet

OTHER = {"mnist": "fashion_mnist", "fashion_mnist": "mnist", "digits": "digits"}
"""What nobody has shown a network of each data set; digits, for tests, have no other."""


class Run:
    """One seed on one data set.

    Attributes:
        x, y: the first N training images, and their labels.
        x_test, y_test: all test images.
        unknown: the test images of the other data set.
        seconds: those of a processor, of all trainings that a method has asked for.
        now: of these, what they took in this process.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        images = load(args.data, "full", directory=args.mnist_path)
        self.x, self.y = images.x_train[: args.N, ..., None], images.y_train[: args.N]
        self.x_test, self.y_test = images.x_test[..., None], images.y_test
        self.unknown = load(OTHER[args.data], "full", directory=args.mnist_path).x_test[..., None]
        self.folder = args.savedir / "runs" / f"{args.data}_{args.seed}"
        self.seconds = self.now = 0.0

    @property
    def num_data(self) -> int:
        """N."""
        return len(self.x)

    @property
    def steps(self) -> int:
        """Steps in an epoch."""
        return -(-self.num_data // self.args.batch_size)

    def seed(self, member: int = 0) -> int:
        """The seed of a network of this run, whose first one is the plain network."""
        return self.args.seed * self.args.K + member

    def trained(self, model: keras.Model, name: str, member: int = 0) -> keras.Model:
        """The model, trained by the package's loop."""

        def train(x: Any, y: Any, **settings: Any) -> None:
            tfbdl.train(model, x, y, seed=self.seed(member), **settings)

        self.fit(train, name)
        return model

    def fit(self, fit: Callable[..., Any], name: str, epochs: int | None = None) -> Any:
        """`fit(x, y, ...)` in a folder of this name, and its seconds, which are noted there.

        A training that goes on where it was stopped counts as long as its epochs take now.
        """
        folder, epochs = self.folder / name, epochs or self.args.n_epochs
        note = folder / "seconds.json"
        done = _epochs_in(folder)
        begun = time.process_time()
        settings = {"epochs": epochs, "batch_size": self.args.batch_size, "savedir": folder}
        answer = fit(self.x, self.y, verbose=0, **settings)
        now = time.process_time() - begun
        if not note.exists():
            seconds = now * epochs / max(epochs - done, 1)
            write_whole(note, lambda file: file.write(json.dumps(round(seconds, 3)).encode()))
        self.seconds += json.loads(note.read_text())
        self.now += now
        return answer

    def plain(self, member: int = 0) -> keras.Model:
        """A trained network without anything random; all methods that need one share it."""
        keras.utils.set_random_seed(self.seed(member))
        return self.trained(compiled(lenet()), f"ensemble/member_{member}", member)

    def subset(self, images: np.ndarray) -> np.ndarray:
        """Every so many, where all would take long."""
        return images[:: self.args.every]


def _epochs_in(folder: Path) -> int:
    log = folder / "train.log"
    return log.read_text().count("train: ") if log.exists() else 0
