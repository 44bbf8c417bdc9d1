"""The choice of networks by the evidence: its numbers in closed form, and the script."""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tutorial_runs

import tfbdl
from tfbdl.data import RegressionData
from tfbdl.likelihoods import Normal
from tutorials.marginal_likelihood import __main__ as script
from tutorials.uci.split import Split

Choice, Task = script.Choice, script.Task

ARGS = argparse.Namespace(n_epochs=60, batch_size=100, seed=0)


def regression() -> RegressionData:
    """Linear, with noise of standard deviation 2."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = 7 + x @ [[4.0], [-1.0]] + rng.normal(0, 2, (60, 1))
    return RegressionData(x[:40], y[:40], x[40:], y[40:])


class NumbersTest(tf.test.TestCase):
    def test_of_a_linear_model_are_those_of_bayesian_linear_regression(self) -> None:
        """Without hidden layers, in the units of the data, at a given precision and noise."""
        split = Split.of(regression())
        log_scale = float(np.log(split.scale))
        of = Task(*split[:4], Normal(1.0), 1, 3e-2, log_scale)
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.object(script, "EXAMPLES_AN_EPOCH", 400),
        ):
            laplace = script.posterior(of, Choice(1, 0, 3.0), 0.5, Path(folder) / "run", ARGS)
        row = script.measured(of, laplace, ("kron", "full"))
        phi, phi_test = (np.insert(x, 2, 1.0, axis=1) for x in (split.x, split.x_test))
        marginal = scipy.stats.multivariate_normal(
            np.full(40, split.loc),
            split.scale**2 * (phi @ phi.T / 3.0 + 0.25 * np.eye(40)),
        )
        expected = marginal.logpdf(split.raw.y_train[:, 0]) / 40
        self.assertAllClose(row["evidence"]["full"], expected, atol=1e-3)
        precision = phi.T @ phi / 0.25 + 3.0 * np.eye(3)
        kernel_and_bias = np.linalg.slogdet(precision[:2, :2])[1] + np.log(precision[2, 2])
        excess = (kernel_and_bias - np.linalg.slogdet(precision)[1]) / 2 / 40
        self.assertAllClose(row["evidence"]["full"] - row["evidence"]["kron"], excess, atol=1e-5)
        mean = np.linalg.solve(precision, phi.T @ split.y / 0.25)
        variance = np.sum(phi_test * np.linalg.solve(precision, phi_test.T).T, axis=1) + 0.25
        log_p = scipy.stats.norm.logpdf(
            split.raw.y_test[:, 0],
            split.loc + split.scale * (phi_test @ mean)[:, 0],
            split.scale * np.sqrt(variance),
        )
        self.assertAllClose(row["test_log_prob"], log_p.mean(), atol=1e-2)
        self.assertEqual((row["weights"], row["noise"]), (3, 0.5))

    def test_rank_correlation(self) -> None:
        pairs = ((-9, 1), (0, 2), (1, 30), (2, 4))
        rows = [{"evidence": {"full": e, "kron": -e}, "test_log_prob": t} for e, t in pairs]
        self.assertAllClose(script.correlation(rows, "full"), 0.8)
        self.assertAllClose(script.correlation(rows, "kron"), -0.8)


@pytest.mark.usefixtures("without_xla")
class ScriptTest(unittest.TestCase):
    def run_script(self, savedir: Path, *flags: str) -> str:
        images = ("--sets", "images", "--data", "digits", "--N", "200")
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            tutorial_runs.run(script, *images, "--savedir", str(savedir), *flags)
        return output.getvalue()

    def test_it_runs(self) -> None:
        """A network of one unit is not chosen; the highest precision is worse than the best."""
        short = {
            "WIDTHS": (1, 16),
            "DEPTHS": (1,),
            "EXAMPLES_AN_EPOCH": 1000,
            "OF_PRECISIONS": (16, 1),
            "PRECISIONS": (1.0, 1e5),
        }
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.multiple(script, **short),
        ):
            savedir = Path(folder) / "run"
            with self.assertRaisesRegex(SystemExit, "lacks results of these flags; run --mode tr"):
                self.run_script(savedir, "--mode", "test")
            text = self.run_script(savedir, "--n_epochs", "20")
            self.assertEqual(self.run_script(savedir, "--n_epochs", "20"), text)
            self.run_script(savedir, "--n_epochs", "20", "--mode", "visualize")
            self.assertIn("| images | 2 networks | kron | 1.00 | 16x1 |", text)
            self.assertIn("| images | 2 precisions | kron | 1.00 | 16x1_1 |", text)
            log = tfbdl.read_log(savedir / "images" / "16x1" / "train.log")
            self.assertEqual(log.epochs.tolist(), list(range(1, 21)))
            self.assertLess(log.metrics["loss"][-1], log.metrics["loss"][0] / 2)
            figures = {path.name for path in savedir.glob("*.png") if path.stat().st_size > 5000}
            self.assertEqual(figures, {"networks.png", "precisions.png"})
            with self.assertRaisesRegex(SystemExit, "was made with --n_epochs 20, not 21; name"):
                self.run_script(savedir, "--n_epochs", "21")


if __name__ == "__main__":
    tf.test.main()
