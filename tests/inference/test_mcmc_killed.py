"""Chains killed by SIGKILL, in processes of their own, and taken up again until they are done."""

import itertools
import multiprocessing
import os
import random
import signal
import tempfile
import threading
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from tfbdl.inference import HMC, MCMC
from tfbdl.inference.mcmc import progress
from tfbdl.inference.mcmc.storage import ChainStorage
from tfbdl.likelihoods import Normal

# Processes are forked off one that has TensorFlow imported but not started.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tfbdl"])

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 2)).astype("float32")
Y = np.tanh(X[:, :1]) + RNG.normal(0, 0.2, (12, 1)).astype("float32")


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def process(savedir: Any, kill_event: Any = None, kill_delay: Any = None) -> None:
    """One process of a run, which may die by its own hand.

    Events are the beginning and end of each writing of samples, of each flush to the disk and each
    renaming. A delay, in seconds, counts from the first checkpoint that the process has written.
    Processes that are to die keep a checkpoint every hundredth of a second.
    """
    events, saved = itertools.count(1), itertools.count(1)

    def watched(function: Any) -> Any:
        def call(*args: Any) -> None:
            if next(events) == kill_event:
                die()
            function(*args)
            if next(events) == kill_event:
                die()

        return call

    def timed(function: Any) -> Any:
        def call(*args: Any) -> None:
            function(*args)
            if kill_delay is not None and next(saved) == 2:
                threading.Timer(kill_delay, die).start()

        return call

    if kill_event or kill_delay:
        progress.SECONDS = 0.01
    os.fsync, os.replace = watched(os.fsync), watched(os.replace)
    storage: Any = ChainStorage
    storage.write = watched(storage.write)
    storage.save = timed(storage.save)
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((2,)), *layers])
    sizes = {"num_warmup": 15, "num_samples": 3_000, "num_chains": 2}
    kernel = HMC(trajectory_length=0.5, mass_matrix="diagonal")
    chains = MCMC(model, 1.0, likelihood=Normal(1.0), kernel=kernel, jit_compile=False, **sizes)
    chains.fit(X, Y, savedir=savedir, verbose=0)


def exit_code(*args: Any, **kwargs: Any) -> Any:
    child = CONTEXT.Process(target=process, args=args, kwargs=kwargs)
    child.start()
    child.join(120)
    return child.exitcode


def arrays(folder: Any) -> Any:
    """All that a run leaves: its samples, and where the chains are."""
    arrays = {path.name: np.load(path) for path in sorted(Path(folder).glob("*.npy"))}
    with np.load(Path(folder) / "checkpoint.npz") as file:
        return arrays | {name: file[name] for name in file.files}


class KillTest(tf.test.TestCase, parameterized.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        with tempfile.TemporaryDirectory() as folder:
            assert exit_code(folder) == 0
            cls.expected = arrays(folder)

    @parameterized.parameters(
        [[{"kill_event": random.Random(seed).randint(5, 60)} for seed in range(3)]],
        [[{"kill_delay": random.Random(seed).uniform(0.0, 0.5)} for seed in range(3)]],
    )
    def test_goes_on_as_if_it_had_not_been_killed(self, kills: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            codes = [exit_code(folder, **kill) for kill in kills]
            self.assertEqual(codes[:2], [-signal.SIGKILL] * 2, "the kills came behind the end")
            self.assertEqual(exit_code(folder), 0)
            actual = arrays(folder)
        self.assertIn("theta.npy", actual)
        self.assertEqual(list(actual), list(self.expected))
        for name, array in actual.items():
            self.assertEqual(array.dtype, self.expected[name].dtype)
            self.assertEqual(array.tobytes(), self.expected[name].tobytes(), name)


if __name__ == "__main__":
    tf.test.main()
