"""A folder that one run holds is kept from all others, until the run ends by any means."""

import multiprocessing
import os
import signal
import tempfile
import unittest
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfbdl
from tfbdl.run_folder import held
from tfbdl.training.log_writer import LogWriter

CONTEXT = multiprocessing.get_context("forkserver")


def hold(folder: Any, pipe: Any) -> None:
    with held(folder):
        pipe.send("held")
        pipe.recv()


def log(path: Any, pipe: Any) -> None:
    writer = LogWriter(path)
    writer.start(1, 0.1)
    pipe.send("begun")
    pipe.recv()


def classifier() -> Any:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile("sgd", "mse")
    return model


class HeldTest(unittest.TestCase):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "a" / "run"

    def refused(self) -> None:
        message = "another run writes into this savedir; name another"
        with self.assertRaisesRegex(OSError, message), held(self.folder):
            pass

    def test_another_process(self) -> None:
        """Held until it ends, be it by SIGKILL, and without a trace in the folder."""
        here, there = CONTEXT.Pipe()
        process = CONTEXT.Process(target=hold, args=(self.folder, there))
        process.start()
        self.assertTrue(here.poll(60))
        self.refused()
        self.assertEqual(os.listdir(self.folder), [])
        os.kill(process.pid, signal.SIGKILL)
        process.join(60)
        with held(self.folder):
            self.refused()
        with held(self.folder):
            pass

    def test_an_error_lets_it_go(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "^mine$"), held(self.folder):
            raise RuntimeError("mine")
        with held(self.folder):
            pass

    def test_no_folder(self) -> None:
        with held(None), held(None):
            pass

    def test_a_file_in_its_place(self) -> None:
        self.folder.parent.mkdir()
        self.folder.write_text("")
        message = "savedir cannot be made .*name another"
        with self.assertRaisesRegex(OSError, message), held(self.folder):
            pass

    def test_training_and_chains(self) -> None:
        """As when one script is started twice: the second one stops, and nothing is written."""
        x = np.ones((10, 4))
        chains = tfbdl.inference.MCMC(
            lambda theta: -0.5 * tf.reduce_sum(theta**2, axis=1),
            initial=np.zeros(2),
        )
        runs = (
            lambda: chains.fit(savedir=self.folder, verbose=0),
            lambda: tfbdl.train(classifier(), x, x[:, :3], epochs=1, savedir=self.folder),
        )
        with held(self.folder):
            for run in runs:
                with self.assertRaisesRegex(OSError, "another run writes into this savedir"):
                    run()
                self.assertEqual(os.listdir(self.folder), [])


class LogTest(unittest.TestCase):
    """A log outside of a folder that is held, as `TrainLogger` writes it."""

    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "train.log"

    def test_another_process(self) -> None:
        """Two that start at once would mix their lines; no file says that one has begun."""
        here, there = CONTEXT.Pipe()
        process = CONTEXT.Process(target=log, args=(self.path, there))
        process.start()
        self.assertTrue(here.poll(60))
        begun = self.path.read_text()
        with self.assertRaisesRegex(OSError, "another run writes this file; name another.*log"):
            LogWriter(self.path)
        self.assertEqual(self.path.read_text(), begun)
        os.kill(process.pid, signal.SIGKILL)
        process.join(60)
        LogWriter(self.path).close()

    def test_after_an_interrupted_fit(self) -> None:
        """A notebook still has the callback of the interrupted `fit`."""

        def stop(epoch: int, logs: Any) -> None:
            raise KeyboardInterrupt

        x = np.ones((10, 4))
        stopping = keras.callbacks.LambdaCallback(on_epoch_begin=stop)
        first, second = (tfbdl.TrainLogger(self.path) for _ in range(2))
        with self.assertRaises(KeyboardInterrupt):
            classifier().fit(x, x[:, :3], callbacks=[first, stopping], verbose=0)
        classifier().fit(x, x[:, :3], epochs=2, callbacks=[second], verbose=0)
        self.assertEqual(tfbdl.read_log(self.path).epochs.tolist(), [1, 2])
        with self.assertRaisesRegex(ValueError, "already has a log"):
            LogWriter(self.path)


if __name__ == "__main__":
    unittest.main()
