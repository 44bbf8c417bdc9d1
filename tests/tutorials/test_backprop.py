"""Bayes by Backprop on MNIST and its pruning: the scripts run, shortened, on the digits."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import tutorial_runs

import tfbdl
from tutorials.bayes_by_backprop import mnist, pruning


class BackpropTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_script(self, module: ModuleType, *flags: str) -> None:
        tutorial_runs.run(module, "--data", "digits", *flags)

    def metrics(self, folder: Path) -> dict[str, Any]:
        return json.loads((folder / "metrics.json").read_text())

    def test_train_test_visualize_and_prune(self) -> None:
        savedir = self.folder / "mnist"
        flags = ("--savedir", str(savedir), "--methods", "plain", "dropout", "bayes")
        with mock.patch.object(mnist, "FIGURE_SAMPLES", 5):
            short = ("--n_epochs", "12", "--plain_epochs", "2", "--units", "20")
            self.run_script(mnist, "--mode", "train", *flags, *short)
            self.run_script(mnist, "--mode", "visualize", *flags, *short)
        log = tfbdl.read_log(savedir / "bayes" / "train.log")
        self.assertEqual(list(log.metrics), ["cent", "kl", "acc"])
        self.assertLess(log.metrics["cent"][-1], log.metrics["cent"][0])
        scores = self.metrics(savedir)
        for method, kinds in (
            ("plain", ("naive",)),
            ("dropout", ("one", "naive", "mc")),
            ("bayes", ("one", "naive", "mc")),
        ):
            for kind in kinds:
                self.assertGreater(scores[f"{method}_acc_{kind}"], 0.3)
            self.assertGreater(scores[f"{method}_acc_train"], 0.3)
        self.assertGreater(scores["bayes_cent_one"], scores["bayes_cent_mc"])
        figures = {path.name for path in savedir.glob("*.png") if path.stat().st_size > 5000}
        self.assertEqual(
            figures,
            {
                f"{m}_{n}.png"
                for m in ("dropout", "bayes")
                for n in ("least_sure", "largest_spread", "spread")
            },
        )
        pruned = self.folder / "pruned"
        curve = {"FRACTIONS": (0.0, 0.98), "CURVE": (0.5,)}
        with mock.patch.multiple(pruning, **curve):
            self.run_script(pruning, "--run", str(savedir), "--savedir", str(pruned))
        error = self.metrics(pruned)["test_error"]
        self.assertEqual(list(error), ["0.0", "0.5", "0.98"])
        self.assertAlmostEqual(error["0.0"]["naive"], 100 * (1 - scores["bayes_acc_naive"]), 4)
        self.assertGreater(error["0.98"]["naive"], error["0.0"]["naive"] + 10)
        self.assertEqual(
            {p.name for p in pruned.glob("*.png")}, {"error.png", "signal_to_noise.png"}
        )

    def test_pruning_needs_a_trained_network(self) -> None:
        """The message names the folder, which no `--savedir` is here."""
        with self.assertRaisesRegex(SystemExit, "error: [^-]*none/bayes has no trained model; .*$"):
            self.run_script(pruning, "--run", str(self.folder / "none"))

    def test_networks_of_the_paper(self) -> None:
        """The prior, where rho starts, and the optimizers that its flags ask for."""
        flags = "--units 7 6 --pi 0.75 --sigma1 1 --sigma2 0.01 --rho -3 --optimizer sgd --lr 0.1"
        args = mnist.parser().parse_args([*flags.split(), "--estimator", "flipout"])
        args.N = 1000
        model = mnist.bayes(args)
        self.assertEqual([layer.units for layer in model.layers], [7, 6, 10])
        for layer in model.layers:
            prior = layer.prior.get_config()
            self.assertEqual([prior[k] for k in ("pi", "sigma1", "sigma2")], [0.75, 1.0, 0.01])
            self.assertEqual(type(layer.estimator).__name__, "Flipout")
            np.testing.assert_array_equal(layer.kernel.rho, -3.0)
        optimizer = mnist.optimizer(args, 10)
        self.assertEqual(optimizer.momentum, 0.9)
        rates = [float(optimizer._learning_rate(step)) for step in (0, 50, 100)]
        np.testing.assert_allclose(rates, [0.1, 0.05, 0.0], atol=1e-6)


if __name__ == "__main__":
    unittest.main()
