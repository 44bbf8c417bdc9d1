"""The regression of the report: its gradients, its truth, and that what mends it does."""

from __future__ import annotations

import json
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import tensorflow as tf
import tutorial_runs
from absl.testing import parameterized

import tfbdl
from tfbdl.data import blundell_curve
from tutorials.bayes_by_backprop import regression, report_gradients
from tutorials.bayes_by_backprop import regression_steps as steps


class GradientsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters((500, 0), (1, 1), (7, 2))
    def test_by_hand_and_by_autodiff(self, m: int, seed: int) -> None:
        x, y = (a.astype("float64") for a in blundell_curve(m, seed))
        model = regression.network(steps.REPORT, 500, seed, kl="sample", dtype="float64")
        scores = report_gradients.differences(model, x, y)
        self.assertLen(scores, 12)
        self.assertLess(max(scores.values()), 1e-12)

    def test_by_hand_and_by_differences(self) -> None:
        """Equation 18 itself, written down once more."""
        random = np.random.default_rng(0)
        shapes = [(1, 3), (3,), (3, 2), (2,), (2, 1), (1,)]
        mu, rho, eps = ([random.normal(size=s) for s in shapes] for _ in range(3))
        x, y = random.normal(size=(5, 1)), random.normal(size=(5, 1))

        def loss(mu: list[np.ndarray], rho: list[np.ndarray]) -> float:
            sigma = [np.log(1 + np.exp(r)) for r in rho]
            w0, b0, w1, b1, w2, b2 = w = [m + s * e for m, s, e in zip(mu, sigma, eps, strict=True)]
            yhat = np.maximum(np.maximum(x @ w0 + b0, 0) @ w1 + b1, 0) @ w2 + b2
            kl = [
                np.sum(-np.log(s) - e**2 / 2 + v**2 / 2)
                for s, e, v in zip(sigma, eps, w, strict=True)
            ]
            return sum(kl) / 11 + np.mean((y - yhat) ** 2) / 2

        scores = report_gradients.by_hand(mu, rho, eps, x, y, num_data=11)
        for arrays, gradients in zip((mu, rho), scores, strict=True):
            for array, gradient in zip(arrays, gradients, strict=True):
                for index in np.ndindex(array.shape):
                    kept, values = array[index], []
                    for step in (1e-6, -1e-6):
                        array[index] = kept + step
                        values.append(loss(mu, rho))
                    array[index] = kept
                    self.assertAllClose(
                        (values[0] - values[1]) / 2e-6, gradient[index], rtol=1e-6, atol=1e-8
                    )


class TruthTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(0.0, 0.13, 0.25, 0.4, 1.2)
    def test_moments_are_those_of_integrals_over_the_noise(self, x: float) -> None:
        def integral(power: int) -> float:
            def integrand(e: float) -> float:
                inside = 0.3 * np.sin(2 * np.pi * (x + e)) + 0.3 * np.sin(4 * np.pi * (x + e))
                return (x + inside + e) ** power * scipy.stats.norm.pdf(e, scale=0.02)

            return scipy.integrate.quad(integrand, -0.3, 0.3, epsabs=1e-13, points=[0.0])[0]

        mean, variance = regression.truth(np.array([[x]]))
        self.assertAllClose(mean, [[integral(1)]], rtol=1e-9)
        self.assertAllClose(variance, [[integral(2) - integral(1) ** 2]], rtol=1e-7)

    def test_moments_are_those_of_the_data(self) -> None:
        x, y = blundell_curve(100_000, 5)
        mean, variance = regression.truth(x)
        z = (y - mean) / np.sqrt(variance)
        self.assertAllClose(np.mean(z), 0.0, atol=5 / np.sqrt(z.size))
        self.assertAllClose(np.mean(z**2), 1.0, atol=5 * np.std(z**2) / np.sqrt(z.size))

    def test_best_densities(self) -> None:
        """Are the mean log densities of the data under the normals they are named for."""
        x, y = blundell_curve(100_000, 6)
        mean, variance = regression.truth(x)
        best = regression.best_densities(x, 0.02)
        for name, of in (("one noise", variance.mean()), ("noise of each x", variance)):
            logs = scipy.stats.norm.logpdf(y, mean, np.sqrt(of))
            self.assertAllClose(best[name], logs.mean(), atol=5 * logs.std() / np.sqrt(logs.size))
        self.assertLess(best["one noise"], best["noise of each x"])


@pytest.mark.usefixtures("without_xla")
class ScriptTest(unittest.TestCase):
    def test_it_runs(self) -> None:
        """Few epochs; those of the mended network are enough to tell it from the report's."""
        few = {
            "report": replace(steps.REPORT, n_epochs=2, batch_size=50),
            "local": replace(steps.LOCAL, n_epochs=150),
            "predicted": replace(steps.PREDICTED, n_epochs=2),
        }
        back = {"without_kl_per_n": replace(steps.WITHOUT["without_kl_per_n"], n_epochs=2)}
        wide = {"variance_report": replace(steps.WIDE["variance_report"], n_epochs=2)}
        with tempfile.TemporaryDirectory() as folder:
            savedir = Path(folder) / "run"
            with (
                mock.patch.multiple(
                    regression,
                    STEPS=few,
                    WITHOUT=back,
                    WIDE=wide,
                    NETWORKS=few | back | wide,
                    TEST_POINTS=1000,
                ),
                mock.patch.object(sys, "stdout"),
            ):
                for mode in ("train", "visualize", "gradients"):
                    flags = ["--mode", mode, "--savedir", str(savedir), "--S", "10"]
                    tutorial_runs.run(regression, *flags)
            log = tfbdl.read_log(savedir / "local" / "train.log")
            self.assertEqual(list(log.metrics), ["loss", "kl"])
            self.assertEqual(len(log.epochs), 150)
            scores = json.loads((savedir / "metrics.json").read_text())
            self.assertEqual(scores["configuration"], {"N": 500, "S": 10, "seed": 0})
            self.assertGreater(
                scores["local"]["test_log_density"], scores["report"]["test_log_density"] + 1
            )
            self.assertLess(
                scores["local"]["test_mse_to_mean"], scores["report"]["test_mse_to_mean"] / 5
            )
            figures = {path.name for path in savedir.glob("*.png") if path.stat().st_size > 5000}
            expected = {f"{n}.png" for n in ("steps", "without", "densities", "curve", "variance")}
            self.assertEqual(figures, expected)


if __name__ == "__main__":
    unittest.main()
