"""Every tutorial script runs in all its modes, shortened, on the embedded digits."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import scipy.stats
import tutorial_runs

import tfbdl
from tfbdl.data.cifar10 import CIFAR10
from tutorials import convolutional_vae, many_seeds, part4_sweeps
from tutorials.records import RecordFile

ROOT = Path(__file__).parents[2]
QUICK_CONSTANTS = {
    "part2_mc_dropout.FIGURE_SAMPLES": 5,
    "part2_mc_dropout.REGRESSION_EPOCHS": 2,
    "part2_mc_dropout.CHAIN_STEPS": 5,
    "part2_mc_dropout.ANGLES": (0.0, 90.0),
    "part2_mc_dropout.BLENDS": (0.0, 1.0),
    "part3_concrete_dropout.SEQUENCE": (10, 20),
    "part3_concrete_dropout.REGRESSION_STEPS": 2,
    "part3_concrete_dropout.GAL_EPOCHS": 2,
    "many_seeds.KEEP_EPOCHS": {100: 2, 200: 2},
}


class TutorialTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.savedir = Path(folder.name) / "run"
        for name, value in QUICK_CONSTANTS.items():
            patch = mock.patch(f"tutorials.{name}", value)
            patch.start()
            self.addCleanup(patch.stop)

    def run_script(self, name: str, *flags: str) -> None:
        module = importlib.import_module(f"tutorials.{name}")
        where = ("--savedir", str(self.savedir))
        tutorial_runs.run(module, "--data", "digits", "--n_epochs", "2", *where, *flags)

    def figures(self) -> set[str]:
        return {path.name for path in self.savedir.glob("*.png") if path.stat().st_size > 5000}

    def metrics(self) -> dict[str, Any]:
        return json.loads((self.savedir / "metrics.json").read_text())

    def columns(self) -> list[str]:
        log = tfbdl.read_log(self.savedir / "train.log")
        self.assertEqual(log.epochs.tolist(), [1, 2])
        np.testing.assert_allclose(log.learning_rates, [1e-3, 1e-4])
        return list(log.metrics)

    def test_part1(self) -> None:
        self.run_script("part1_vae", "--zdim", "2", "--k", "5")
        self.assertEqual(self.columns(), ["elbo"])
        self.assertLess(self.metrics()["test_elbo"], self.metrics()["test_log_likelihood"] + 50)
        self.run_script("part1_vae", "--zdim", "2", "--mode", "visualize")
        expected = {"manifold.png", "latent_train.png", "reconstruction_test.png"}
        self.assertLessEqual(expected, self.figures())

    def test_convolutional_vae(self) -> None:
        """Grey digits, and patches in colour with their rivals' bits."""
        self.run_script("convolutional_vae", "--N", "300", "--k", "5")
        self.assertEqual(list(tfbdl.read_log(self.savedir / "train.log").metrics), ["elbo", "kl"])
        self.run_script("convolutional_vae", "--mode", "visualize")
        expected = {"manifold.png", "latent.png", "reconstruction.png", "samples.png"}
        self.assertLessEqual(expected, self.figures())
        rng = np.random.default_rng(0)
        walks = rng.normal(0, 12, (400, 32, 32, 3)).cumsum(axis=1).cumsum(axis=2) / 6
        x = np.clip(128 + walks, 0, 255).astype("uint8")
        data = CIFAR10(x[:300], np.zeros(300), x[300:], np.zeros(100))
        self.savedir = self.savedir.with_name("patches")
        with mock.patch("tutorials.convolutional_vae.cifar10", return_value=data):
            self.run_script("convolutional_vae", "--data", "patches", "--zdim", "4", "--k", "5")
        bits = self.metrics()["test_bits"]
        self.assertEqual(list(bits), ["vae", "normal", "pixels"])
        law = scipy.stats.multivariate_normal(np.zeros(4), np.diag([1.0, 2.0, 3.0, 4.0]))
        draws = law.rvs(100_000, random_state=1)
        self.assertAlmostEqual(convolutional_vae.of_normal(draws, draws), -law.entropy(), 2)
        uniform = np.random.default_rng(1).random((200_000, 2)) * [0.5, 1.0]
        self.assertAlmostEqual(convolutional_vae.of_pixels(uniform, uniform), np.log(2), 2)
        self.assertLess(bits["pixels"], 8.5)

    def test_part2(self) -> None:
        self.run_script("part2_mc_dropout", "--S", "3")
        self.assertEqual(self.columns(), ["cent", "wd", "acc"])
        self.assertGreater(self.metrics()["test_acc_mc"], 0.5)
        self.run_script("part2_mc_dropout", "--mode", "visualize")
        expected = {"function_draws.png", "weight_decay.png", "uncertainty_synthetic.png"}
        self.assertLessEqual(expected, self.figures())

    def test_part3(self) -> None:
        self.run_script("part3_concrete_dropout", "--S", "3")
        self.assertEqual(self.columns(), ["cent", "wd", "ent", "acc"])
        self.assertGreater(self.metrics()["test_acc_mc"], 0.5)
        self.run_script("part3_concrete_dropout", "--mode", "visualize")
        self.assertLessEqual({"keep_probabilities.png", "rate_against_n.png"}, self.figures())
        self.run_script("part3_concrete_dropout", "--mode", "gal")
        self.assertAlmostEqual(self.metrics()["gal_at_10"]["mean"], 0.1, delta=0.05)

    def test_part4(self) -> None:
        self.run_script("part4_variational_dropout", "--S", "3")
        self.assertEqual(self.columns(), ["cent", "kl", "acc"])
        self.assertGreater(self.metrics()["test_acc_naive"], 0.5)
        self.run_script("part4_variational_dropout", "--mode", "visualize")
        self.assertLessEqual({"log_alpha.png", "pixels.png"}, self.figures())

    def test_part4_trains_with_the_other_kl(self) -> None:
        """What prunes does not prune all, by default."""
        self.run_script("part4_variational_dropout", "--kl", "molchanov", "--S", "3")
        self.assertGreater(self.metrics()["test_acc_naive"], 0.5)

    def test_part4_sweeps(self) -> None:
        with mock.patch.multiple(part4_sweeps, KL_WEIGHTS=(1.0, 2.0), EPOCHS=(2, 3)):
            flags = ("--checkpoints", str(self.savedir / "runs"), "--seeds", "1", "--S", "2")
            self.run_script("part4_sweeps", "--sweep", "compression", *flags)
        records = RecordFile(self.savedir / "compression.jsonl", "kl_weight", "epochs", "seed")
        self.assertEqual(len(records.records()), 4)
        self.assertIn("| 2 | 3 | 1 |", (self.savedir / "compression.md").read_text())
        few = {name: part4_sweeps.GAIN[name] for name in list(part4_sweeps.GAIN)[-2:]}
        with mock.patch.object(part4_sweeps, "GAIN", few):
            self.run_script("part4_sweeps", "--sweep", "gain", "--seeds", "2", "--S", "2")
        gains = RecordFile(self.savedir / "gain.jsonl", "setting", "seed").records()
        self.assertEqual({record["setting"] for record in gains}, set(few))

    def test_bayes_dense(self) -> None:
        self.run_script("bayes_dense", "--S", "3")
        self.assertEqual(self.columns(), ["cent", "kl", "acc"])
        self.run_script("bayes_dense", "--mode", "visualize")
        self.assertLessEqual({"weights.png", "uncertainty_confident.png"}, self.figures())

    def test_many_seeds(self) -> None:
        for table in ("accuracy", "log", "vae", "keep"):
            with mock.patch.object(many_seeds, "METHODS", two_methods()):
                self.run_script("many_seeds", "--table", table, "--seeds", "2", "--S", "2")
        for table in ("accuracy", "log", "vae", "keep"):
            self.assertIn("| ", (self.savedir / f"{table}.md").read_text())

    def test_mistakes_end_in_one_line(self) -> None:
        for flags, words in (
            (["--N", "15"], "--N 15 must be a multiple of 10"),
            (["--savedir", "/proc/none"], "savedir"),
        ):
            with (
                contextlib.redirect_stderr(io.StringIO()) as shown,
                self.assertRaises(SystemExit) as stopped,
            ):
                self.run_script("part2_mc_dropout", *flags)
            self.assert_mistake(shown.getvalue() + str(stopped.exception.code), words)

    def test_mistakes_end_a_process(self) -> None:
        flags = ["--data", "digits", "--savedir", str(self.savedir), "--mode", "test"]
        run = subprocess.run(
            [sys.executable, "-m", "tutorials.part2_mc_dropout", *flags],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        self.assertNotEqual(run.returncode, 0)
        self.assert_mistake(run.stderr, "no trained model; run --mode train first")

    def assert_mistake(self, shown: str, words: str) -> None:
        """Asserts that the one line says so, and nothing is written."""
        self.assertIn(words, shown)
        self.assertEqual(len(shown.strip().splitlines()), 1, shown)
        self.assertFalse(self.savedir.exists())


def two_methods() -> dict[str, Any]:
    """Two of the methods are enough to see the table made."""
    return {name: many_seeds.METHODS[name] for name in ("base", "concrete_dropout")}


if __name__ == "__main__":
    unittest.main()
