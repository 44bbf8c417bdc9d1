"""A folder that one run holds is kept from all others, until the run ends by any means."""

import multiprocessing
import os
import signal
import tempfile
import unittest
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tfbdl
from tfbdl.run_folder import held

CONTEXT = multiprocessing.get_context("forkserver")


def hold(folder, pipe):
    with held(folder):
        pipe.send("held")
        pipe.recv()


def classifier():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile("sgd", "mse")
    return model


class HeldTest(unittest.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "a" / "run"

    def refused(self):
        message = "another run writes into this savedir; name another"
        with self.assertRaisesRegex(OSError, message), held(self.folder):
            pass

    def test_another_process(self):
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

    def test_an_error_lets_it_go(self):
        with self.assertRaisesRegex(RuntimeError, "^mine$"), held(self.folder):
            raise RuntimeError("mine")
        with held(self.folder):
            pass

    def test_no_folder(self):
        with held(None), held(None):
            pass

    def test_a_file_in_its_place(self):
        self.folder.parent.mkdir()
        self.folder.write_text("")
        message = "savedir cannot be made .*name another"
        with self.assertRaisesRegex(OSError, message), held(self.folder):
            pass

    def test_training_and_chains(self):
        """As when one script is started twice: the second one stops, and nothing is written."""
        x = np.ones((10, 4))
        chains = tfbdl.inference.MCMC(
            lambda theta: -0.5 * tf.reduce_sum(theta**2, axis=1),
            initial=np.zeros(2),
            savedir=self.folder,
            verbose=0,
        )
        runs = (
            chains.run,
            lambda: tfbdl.train(classifier(), x, x[:, :3], epochs=1, savedir=self.folder),
        )
        with held(self.folder):
            for run in runs:
                with self.assertRaisesRegex(OSError, "another run writes into this savedir"):
                    run()
                self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()
