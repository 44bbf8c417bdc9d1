"""Bayes by Backprop on MNIST and its pruning: the scripts run, shortened, on the digits."""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

import tfbdl

FOLDER = Path(__file__).parents[1] / "tutorials" / "bayes_by_backprop"
sys.path.insert(0, str(FOLDER))


class BackpropTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_script(self, name: str, *flags: str) -> None:
        module = importlib.import_module(name)
        flags = ("--data", "digits", *flags)
        with mock.patch.object(sys, "argv", [f"{name}.py", *flags]):
            module.main()

    def metrics(self, folder: Path) -> dict:
        return json.loads((folder / "metrics.json").read_text())

    def test_train_test_visualize_and_prune(self) -> None:
        savedir = self.folder / "mnist"
        flags = ("--savedir", str(savedir), "--methods", "plain", "dropout", "bayes")
        module = importlib.import_module("mnist")
        with mock.patch.object(module, "FIGURE_SAMPLES", 5):
            short = ("--n_epochs", "12", "--plain_epochs", "2", "--units", "20")
            self.run_script("mnist", "--mode", "train", *flags, *short)
            self.run_script("mnist", "--mode", "visualize", *flags, *short)
        log = tfbdl.read_log(savedir / "bayes" / "train.log")
        self.assertEqual(list(log.metrics), ["cent", "kl", "acc"])
        self.assertLess(log.metrics["cent"][-1], log.metrics["cent"][0])
        found = self.metrics(savedir)
        for method, kinds in (
            ("plain", ("naive",)),
            ("dropout", ("one", "naive", "mc")),
            ("bayes", ("one", "naive", "mc")),
        ):
            for kind in kinds:
                self.assertGreater(found[f"{method}_acc_{kind}"], 0.3)
        self.assertGreater(found["bayes_cent_one"], found["bayes_cent_mc"])
        figures = {path.name for path in savedir.glob("*.png") if path.stat().st_size > 5000}
        self.assertEqual(
            figures,
            {f"{m}_{n}.png" for m in ("dropout", "bayes") for n in ("least_sure", "spread")},
        )
        pruned = self.folder / "pruned"
        curve = {"FRACTIONS": (0.0, 0.98), "CURVE": (0.5,)}
        with mock.patch.multiple(importlib.import_module("pruning"), **curve):
            self.run_script("pruning", "--run", str(savedir), "--savedir", str(pruned))
        error = self.metrics(pruned)["test_error"]
        self.assertEqual(list(error), ["0.0", "0.5", "0.98"])
        self.assertAlmostEqual(error["0.0"]["naive"], 100 * (1 - found["bayes_acc_naive"]), 4)
        self.assertGreater(error["0.98"]["naive"], error["0.0"]["naive"] + 10)
        self.assertEqual(
            {p.name for p in pruned.glob("*.png")}, {"error.png", "signal_to_noise.png"}
        )

    def test_pruning_needs_a_trained_network(self) -> None:
        """The message names the folder, which no `--savedir` is here."""
        with self.assertRaisesRegex(SystemExit, "error: [^-]*none/bayes has no trained model; .*$"):
            self.run_script("pruning", "--run", str(self.folder / "none"))

    def test_networks_of_the_paper(self) -> None:
        """The prior, where rho starts, and the optimizers that its flags ask for."""
        module = importlib.import_module("mnist")
        flags = "--units 7 6 --pi 0.75 --sigma1 1 --sigma2 0.01 --rho -3 --optimizer sgd --lr 0.1"
        args = module.parser().parse_args([*flags.split(), "--estimator", "flipout"])
        args.N = 1000
        model = module.bayes(args)
        self.assertEqual([layer.units for layer in model.layers], [7, 6, 10])
        for layer in model.layers:
            prior = layer.prior.get_config()
            self.assertEqual([prior[k] for k in ("pi", "sigma1", "sigma2")], [0.75, 1.0, 0.01])
            self.assertEqual(type(layer.estimator).__name__, "Flipout")
            np.testing.assert_array_equal(layer.kernel.rho, -3.0)
        optimizer = module.optimizer(args, 10)
        self.assertEqual(optimizer.momentum, 0.9)
        rates = [float(optimizer._learning_rate(step)) for step in (0, 50, 100)]
        np.testing.assert_allclose(rates, [0.1, 0.05, 0.0], atol=1e-6)


if __name__ == "__main__":
    unittest.main()
