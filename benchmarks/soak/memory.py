"""Long runs, whose memory must not grow."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

import tfbdl

STEPS_PER_EPOCH = 100
N = 1000
X = np.random.default_rng(0).normal(size=(N, 4)).astype("float32")
Y = np.arange(N) % 3

ALLOWED = 16.0
"""Megabytes that an allocator may waste; 10^5 steps that each kept a kilobyte would be 100."""


class Growth(NamedTuple):
    """The growth of the memory of a run.

    steps: how many it made.
    early: megabytes resident after a fifth of them.
    late: megabytes in the end.
    """

    steps: int
    early: float
    late: float


def training(steps: int) -> Growth:
    """The growth of `tfbdl.train` on arrays, with a log and a checkpoint an epoch."""
    with tempfile.TemporaryDirectory() as folder:
        return _training(steps, lambda *_: (X, Y), savedir=Path(folder) / "run")


def streaming(steps: int) -> Growth:
    """The growth of `tfbdl.train` on a data set that is made anew each epoch."""

    def examples(epoch: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(N, seed=epoch)
        return data.map(lambda x, y: (2.0 * x, y))

    return _training(steps, lambda *_: (examples, None), num_data=N)


def chains(steps: int) -> Growth:
    """The growth of `MCMC`, in calls of few steps."""
    seen: list[float] = []
    save = tfbdl.inference.mcmc.storage.ChainStorage.save

    def watched(samples: object, position: object, done: int) -> None:
        save(samples, position, done)
        if done >= steps / 5:
            seen.append(megabytes())

    with mock.patch("tfbdl.inference.mcmc.storage.ChainStorage.save", watched):
        tfbdl.inference.MCMC(
            lambda theta: -0.5 * tf.reduce_sum(theta**2, axis=1),
            kernel="rwmh",
            initial=np.zeros(3),
            num_warmup=100,
            num_samples=steps // 100,
            thinning=100,
            jit_compile=False,
        ).fit(verbose=0)
    return Growth(steps, seen[0], seen[-1])


RUNS: dict[str, Callable[[int], Growth]] = {
    "training on arrays": training,
    "training on data sets": streaming,
    "chains": chains,
}


def check(growth: Growth) -> Growth:
    """Raises AssertionError where memory grew by more than an allocator wastes."""
    if growth.late - growth.early > ALLOWED:
        raise AssertionError(f"memory grew from {growth.early:.0f} to {growth.late:.0f} MB")
    return growth


def megabytes() -> float:
    """Megabytes that this process holds in memory now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _training(steps: int, data: Callable[..., tuple], **arguments: object) -> Growth:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((4,)), tfbdl.layers.BayesDense(8, num_data=N), keras.layers.Dense(3)]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    epochs = steps // STEPS_PER_EPOCH
    seen: list[float] = []
    watch = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append(megabytes())
    )
    tfbdl.train(
        model,
        *data(),
        epochs=epochs,
        batch_size=N // STEPS_PER_EPOCH,
        callbacks=[watch],
        verbose=0,
        **arguments,
    )
    return Growth(epochs * STEPS_PER_EPOCH, seen[epochs // 5], seen[-1])
