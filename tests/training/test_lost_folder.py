"""A folder that is deleted while a run writes into it: one line, and the first error is kept."""

import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

import tfbdl
from tfbdl.inference.mcmc.progress import ChainProgress

N = 12
X = np.random.default_rng(0).normal(size=(N, 4)).astype("float32")
Y = np.arange(N) % 3


class Mine(Exception):
    """An error of the user's own callback."""


def classifier() -> Any:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tfbdl.optimizers.SGLD(0.01, num_data=N), loss, jit_compile=False)
    return model


def by_loop(folder: Any, callback: Any) -> None:
    how = {"epochs": 3, "batch_size": 6, "jit_compile": False, "verbose": 0}
    tfbdl.train(classifier(), X, Y, savedir=folder, callbacks=[callback], **how)


def by_fit(folder: Any, callback: Any) -> None:
    logger = tfbdl.TrainLogger(folder / "train.log", verbose=0)
    classifier().fit(X, Y, 6, 3, callbacks=[logger, callback], verbose=0)


def by_members(folder: Any, callback: Any) -> None:
    how = {"batch_size": 6, "verbose": 0}
    ensemble = tfbdl.inference.DeepEnsemble(classifier, 2, jit_compile=False)
    ensemble.fit(X, Y, savedir=folder, epochs=3, callbacks=[callback], **how)


def by_samples(folder: Any, callback: Any) -> None:
    kept = tfbdl.inference.WeightSnapshots(savedir=folder)
    classifier().fit(X, Y, 6, 3, callbacks=[kept, callback], verbose=0)


def by_chains(folder: Any, callback: Any) -> None:
    """What moves the bar stands in for a callback, which chains do not have."""
    chains = tfbdl.inference.MCMC(
        lambda theta: -0.5 * tf.reduce_sum(theta**2, axis=1),
        kernel="rwmh",
        initial=np.zeros(2, "float32"),
        num_warmup=10,
        num_samples=200,
        num_chains=2,
        jit_compile=False,
    )

    def told(*_: Any) -> None:
        callback.on_epoch_end(0)

    with (
        mock.patch.object(ChainProgress, "at", told),
        mock.patch("tfbdl.inference.mcmc.progress.SECONDS", 0.01),
    ):
        chains.fit(savedir=folder, verbose=0)


RUNS = {f.__name__: f for f in (by_loop, by_fit, by_members, by_samples, by_chains)}


class LostFolderTest(parameterized.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory())) / "run"
        self.folder.mkdir()

    def deleting(self, error: Any = None) -> Any:
        """A callback that deletes the folder after an epoch, and may raise then."""

        def delete(epoch: int, logs: Any = None) -> None:
            shutil.rmtree(self.folder, ignore_errors=True)
            if error is not None:
                raise error

        return keras.callbacks.LambdaCallback(on_epoch_end=delete)

    @parameterized.parameters(*RUNS)
    def test_the_first_error_is_kept(self, run: Any) -> None:
        with self.assertRaisesRegex(Mine, "^of the user$"):
            RUNS[run](self.folder, self.deleting(Mine("of the user")))

    @parameterized.parameters(*RUNS)
    def test_one_line_names_the_path(self, run: Any) -> None:
        with self.assertRaises(OSError) as caught:
            RUNS[run](self.folder, self.deleting())
        self.assertNotIn("\n", str(caught.exception))
        self.assertIn(str(self.folder), str(caught.exception))


if __name__ == "__main__":
    absltest.main()
