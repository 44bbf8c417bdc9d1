"""A data set, a seed and a folder: what methods train with, and the seconds that they take."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import tfbdl
from tfbdl.data import load
from tutorials.uncertainty.networks import compiled, lenet

OTHER = {"mnist": "fashion_mnist", "fashion_mnist": "mnist", "digits": "digits"}
"""What nobody has shown a network of each data set; digits, for tests, have no other."""


class Seconds(keras.callbacks.Callback):
    """Counts the seconds of a processor that epochs take, of one training or several.

    A checkpoint has the seconds of its training: epochs before a stop are counted, and none twice.

    Attributes:
        total: the seconds of all trainings that have ended.
    """

    def __init__(self) -> None:
        super().__init__()
        self.total = self._of_training = self._begun = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._begun = time.process_time()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._of_training += time.process_time() - self._begun

    def on_train_end(self, logs: Any = None) -> None:
        self.total += self._of_training
        self._of_training = 0.0

    def get_state(self) -> dict[str, np.ndarray]:
        return {"seconds": np.array(self._of_training)}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self._of_training = float(state["seconds"])


class Run:
    """One seed on one data set.

    Attributes:
        x, y: the first N training images, and their labels.
        x_held_out, y_held_out: the other training images.
        x_test, y_test: all test images.
        unknown: the test images of the other data set.
        seconds: seconds of a processor, over the epochs of all trainings that a method has asked
            for.
        now: the seconds that these trainings have taken in this process.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        images = load(args.data, "full", directory=args.mnist_path)
        x, y = images.x_train[..., None], images.y_train
        self.x, self.y = x[: args.N], y[: args.N]
        self.x_held_out, self.y_held_out = x[args.N :], y[args.N :]
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
        """Steps of a training."""
        return max(self.num_data // self.args.batch_size, 1) * self.args.n_epochs

    def falling(self, rate: float) -> keras.optimizers.schedules.CosineDecay:
        """The learning rate of a training: from `rate` to 0 along a cosine."""
        return keras.optimizers.schedules.CosineDecay(rate, self.steps)

    def compiled(self, model: keras.Model, loss: Any = None) -> keras.Model:
        """The model, compiled with Adam from 1e-3 on."""
        return compiled(model, keras.optimizers.Adam(self.falling(1e-3)), loss)

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
        """`fit(x, y, ...)` in a folder of this name; its seconds are added."""
        seconds, begun = Seconds(), time.process_time()
        answer = fit(
            self.x,
            self.y,
            epochs=epochs or self.args.n_epochs,
            batch_size=self.args.batch_size,
            savedir=self.folder / name,
            callbacks=[seconds],
            verbose=0,
        )
        self.seconds += seconds.total
        self.now += time.process_time() - begun
        return answer

    def plain(self, member: int = 0) -> keras.Model:
        """A trained network without anything random; all methods that need one share it."""
        keras.utils.set_random_seed(self.seed(member))
        return self.trained(self.compiled(lenet()), f"ensemble/member_{member}", member)

    def subset(self, images: np.ndarray) -> np.ndarray:
        """Every so many, where all would take long."""
        return images[:: self.args.every]
