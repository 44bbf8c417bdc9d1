"""Chains that stop, or are stopped, and go on where they were."""

import functools
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import known_targets
import numpy as np
import tensorflow as tf
from absl.testing import parameterized
from two_replicas import strategy

from tfbdl.inference import HMC, MCMC, RandomWalk
from tfbdl.inference.mcmc.storage import ChainStorage
from tfbdl.npz_file import FORMAT

PLAIN = functools.partial(MCMC, jit_compile=False)


class ResumeTest(tf.test.TestCase, parameterized.TestCase):
    def run_of(self, kernel: Any, *, savedir: Any = None, **arguments: Any) -> Any:
        start = {"initial": np.zeros(3), "num_warmup": 40, "num_chains": 4}
        chains = PLAIN(known_targets.gaussian, kernel=kernel, **start, **arguments)
        return chains.fit(savedir=savedir, verbose=0)

    def killed(self, after: Any, kernel: Any, **arguments: Any) -> None:
        """A run that is killed after so many checkpoints."""
        save, left = ChainStorage.save, iter(range(after))

        def until(storage: Any, position: Any, steps: Any) -> None:
            save(storage, position, steps)
            if next(left, None) is None:
                raise KeyboardInterrupt

        with mock.patch.object(ChainStorage, "save", until), self.assertRaises(KeyboardInterrupt):
            self.run_of(kernel, **arguments)

    @parameterized.parameters((HMC(mass_matrix="diagonal"), False), ("rwmh", False), ("hmc", True))
    def test_same_draws(self, kernel: Any, replicated: Any) -> None:
        where = {"strategy": strategy() if replicated else None}
        whole = self.run_of(kernel, num_samples=30, **where)
        self.assertLen(np.unique(whole.theta[-1, :, 0]), 4)
        with tempfile.TemporaryDirectory() as folder:
            where["savedir"] = folder
            self.killed(3, kernel, num_samples=20, **where)
            self.killed(7, kernel, num_samples=20, **where)
            resumed = self.run_of(kernel, num_samples=20, **where)
            for actual, expected in zip(resumed.draws, whole.draws, strict=True):
                self.assertAllEqual(actual, expected[:20])
            beyond = self.run_of(kernel, num_samples=30, **where)
            for actual, expected in zip(beyond.draws, whole.draws, strict=True):
                self.assertAllEqual(actual, expected)
            self.assertAllEqual(beyond.step_size, whole.step_size)

    def test_refusals(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            kernel = RandomWalk(step_size=1.0)
            self.run_of(kernel, savedir=folder, num_samples=3)
            with self.assertRaisesRegex(
                ValueError, "^savedir='.*' holds a run with seed=0, not 1; name another savedir$"
            ):
                self.run_of(kernel, savedir=folder, num_samples=3, seed=1)
            with self.assertRaisesRegex(ValueError, "holds a run with kernel=RandomWalk"):
                self.run_of(RandomWalk(step_size=0.5), savedir=folder, num_samples=3)
            path = Path(folder) / "checkpoint.npz"
            draws = Path(folder) / "log_prob.npy"
            whole = draws.read_bytes()
            for damaged, message in (
                (whole[:50], "log_prob.npy cannot be read .*; name another savedir$"),
                (whole.replace(b"<f", b"<i"), "log_prob.npy holds samples of .*; name another"),
            ):
                draws.write_bytes(damaged)
                with self.assertRaisesRegex(ValueError, message):
                    self.run_of(kernel, savedir=folder, num_samples=3)
            draws.unlink()
            with self.assertRaisesRegex(ValueError, "log_prob.npy cannot be read .*No such file"):
                self.run_of(kernel, savedir=folder, num_samples=3)
            draws.write_bytes(whole)
            with np.load(path) as file:
                np.savez(path, **{**file, "p0": np.zeros(7)})
            with self.assertRaisesRegex(ValueError, "has a checkpoint of other chains; name"):
                self.run_of(kernel, savedir=folder, num_samples=3)
            with np.load(path) as file:
                np.savez(path, **{**file, "format": FORMAT + 1})
            with self.assertRaisesRegex(ValueError, f"format {FORMAT + 1} is of a newer tfbdl"):
                self.run_of(kernel, savedir=folder, num_samples=3)
            path.write_bytes(path.read_bytes()[:100])
            with self.assertRaisesRegex(ValueError, "checkpoint.npz is not a readable checkpoint"):
                self.run_of(kernel, savedir=folder, num_samples=3)
            with self.assertRaisesRegex(OSError, "savedir cannot be made .*; name another"):
                self.run_of(kernel, savedir=path, num_samples=3)


if __name__ == "__main__":
    tf.test.main()
