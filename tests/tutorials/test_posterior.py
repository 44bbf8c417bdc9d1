"""The lecture on posterior inference: one posterior for all methods, and how it is compared."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import tensorflow as tf
import tutorial_runs
from absl.testing import parameterized

import tfbdl
from tfbdl.layers import ConcreteDropout, MCDropout
from tfbdl.models import WeightEnsemble
from tutorials.posterior_inference import __main__ as script
from tutorials.posterior_inference import (
    bands,
    cycles,
    distances,
    laplace_steps,
    methods,
    problems,
    reference,
    running,
    sparse_mode,
)
from tutorials.posterior_inference import table as posterior_table


def by_hand(problem: problems.Problem, weights: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    """The formula of `problems`."""
    w, b, v, c = (a.astype(float) for a in weights)
    a = problem.outer / np.sqrt(problem.units)
    return a * np.tanh(problem.inner * (x @ w + b)) @ v + c


class ProblemsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters("regression", "two_classes", "digits")
    def test_posterior(self, name: str) -> None:
        """Log p(y, w | x) by SciPy; the loss with weight decay differs from it by a constant."""
        problem = self.problem(name)
        network = problem.network(3, decay=True)
        weights = network.get_weights()
        f = by_hand(problem, weights, problem.x)
        self.assertAllClose(network(problem.x), f, rtol=1e-4, atol=1e-4)
        y = problem.y
        if name == "regression":
            log_likelihood = scipy.stats.norm.logpdf(y, f, 0.1).sum()
        elif name == "two_classes":
            log_likelihood = scipy.stats.bernoulli.logpmf(y, scipy.special.expit(f)).sum()
        else:
            log_likelihood = scipy.special.log_softmax(f, axis=1)[np.arange(len(y)), y].sum()
        theta = np.concatenate([np.ravel(w) for w in weights])
        expected = log_likelihood + scipy.stats.norm.logpdf(theta).sum()
        actual = problem.log_posterior()(tf.constant(theta))
        self.assertAllClose(actual, expected, rtol=1e-4)
        loss = float(problem.likelihood(y, network(problem.x))) + float(sum(network.losses))
        constant = 0.5 * len(theta) * np.log(2 * np.pi)
        self.assertAllClose(-problem.num_data * loss - constant, expected, rtol=1e-4)

    def problem(self, name: str) -> problems.Problem:
        if name != "digits":
            return script.PROBLEMS[name][0](12, 0)
        random = np.random.default_rng(0)
        x = random.uniform(size=(12, 196)).astype("float32")
        return problems.digits(x, random.integers(10, size=12), units=4)

    def test_dropout_has_the_prior_of_the_weights_that_are_kept(self) -> None:
        """Weight decay of MC dropout and the term of Concrete dropout are the same at one rate."""
        problem = self.problem("regression")
        run = running.Run(epochs=1, chain_steps=1, num_chains=1, seed=0)
        with mock.patch.object(methods, "trained", lambda problem, model, *_: model):
            dropout = methods.mc_dropout(problem, run)
            concrete = methods.concrete_dropout(problem, run)
        self.assertTrue(any(isinstance(layer, MCDropout) for layer in dropout.layers))
        last = concrete.layers[-1]
        self.assertIsInstance(last, ConcreteDropout)
        kernel = dropout.layers[-1].kernel
        last.layer.kernel.assign(kernel)
        decay = problem.num_data * float(kernel.regularizer(kernel))
        self.assertAllClose(decay, last.weight_term(), rtol=1e-5)

    def test_two_moons(self) -> None:
        """Points lie about half circles of radius 1."""
        x, y = problems.two_moons(20_000, 0)
        side = 1 - 2 * y
        around = x + side * np.array([[0.5, 0.25]])
        radius = np.linalg.norm(around, axis=1)
        square = np.mean(radius**2)  # of a point of the circle plus noise in two dimensions
        expected = 1 + 2 * problems.MOON_NOISE**2
        self.assertAllClose(square, expected, atol=5 * np.std(radius**2) / np.sqrt(len(x)))
        self.assertGreater(np.mean(side[:, 0] * around[:, 1] > -2 * problems.MOON_NOISE), 0.99)

    def test_pooled(self) -> None:
        image = np.random.default_rng(0).uniform(size=(2, 28, 28))
        actual = problems.pooled(image.reshape(2, 784)).reshape(2, 14, 14)
        for i, j in ((0, 0), (3, 7), (13, 13)):
            self.assertAllClose(
                actual[1, i, j], image[1, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].mean()
            )


class SparseModeTest(tf.test.TestCase):
    def test_conditions_of_the_mode(self) -> None:
        """At 0 the likelihood pulls with less than 1 / b, elsewhere with as much as the prior."""
        x, y, _ = sparse_mode.regression(0)
        w = sparse_mode.mode(x, y)
        pull = x.T.astype(float) @ (y[:, 0] - x @ w) / sparse_mode.NOISE**2
        kept = w != 0
        self.assertBetween(kept.sum(), 5, 60)
        self.assertAllClose(pull[kept], np.sign(w[kept]) / sparse_mode.SCALE, rtol=1e-3)
        self.assertLessEqual(np.abs(pull[~kept]).max(), 1 / sparse_mode.SCALE * (1 + 1e-6))


class LaplaceStepsTest(tf.test.TestCase):
    def test_each_step(self) -> None:
        """The mode has no slope, H is -d^2 / dw^2, and integrals are those of SciPy."""
        actual = laplace_steps.steps()
        x, y, scale = laplace_steps.X[:, 0], laplace_steps.Y[:, 0], laplace_steps.SCALE

        def joint(w: float) -> float:
            p = scipy.special.expit(w * x)
            likelihood = np.prod(np.where(y == 1, p, 1 - p))
            return likelihood * scipy.stats.norm.pdf(w, scale=scale)

        p = scipy.special.expit(actual.mode * x)
        self.assertAllClose(np.sum(x * (y - p)) - actual.mode / scale**2, 0.0, atol=1e-3)
        h = np.sum(x**2 * p * (1 - p)) + scale**-2
        self.assertAllClose(actual.stddev, h**-0.5, rtol=1e-4)
        evidence = scipy.integrate.quad(joint, -20, 20, points=[1.0])[0]
        self.assertAllClose(actual.log_evidence[0], np.log(evidence), atol=1e-4)
        by_laplace = np.log(joint(actual.mode)) + 0.5 * np.log(2 * np.pi / h)
        self.assertAllClose(actual.log_evidence[1], by_laplace, atol=1e-4)
        at = laplace_steps.LINE[80, 0]
        mean = scipy.integrate.quad(
            lambda w: joint(w) * scipy.special.expit(w * at), -20, 20, points=[1.0]
        )[0]
        self.assertAllClose(actual.exact[80], mean / evidence, atol=1e-4)
        normal = scipy.stats.norm(actual.mode, actual.stddev)
        mean = normal.expect(lambda w: scipy.special.expit(w * at))
        self.assertAllClose(actual.approximate[80], mean, atol=5 * 0.5 / 5000**0.5)


@pytest.mark.usefixtures("without_xla")
class TableTest(tf.test.TestCase, parameterized.TestCase):
    def test_scores_and_order(self) -> None:
        p = np.array([[0.7, 0.3], [0.4, 0.6], [0.9, 0.1]])
        other = np.array([[0.6, 0.4], [0.6, 0.4], [0.8, 0.2]])
        y = np.array([0, 1, 1])
        actual = distances.scores(p, other, y)
        self.assertAllClose(actual["accuracy"], 2 / 3)
        self.assertAllClose(actual["agreement"], 2 / 3)
        self.assertAllClose(actual["total_variation"], (0.1 + 0.2 + 0.1) / 3)
        self.assertAllClose(actual["nll"], -np.log([0.7, 0.6, 0.1]).mean())
        chains = reference.Reference(np.stack([p, other, p]), *[np.zeros(2)] * 4)
        self.assertAllClose(chains.others(1), p)
        self.assertAllClose(chains.mean, (2 * p + other) / 3)
        rows = {
            name: [{"agreement": a, "total_variation": t}]
            for name, a, t in (("MFVI", 0.8, 0.2), ("SGLD", 0.9, 0.3), ("SGHMC", 0.7, 0.1))
        }
        lines = distances.ordering(rows)
        self.assertIn("than MFVI: SGLD; not: SGHMC", lines[0])
        self.assertIn("than MFVI: SGHMC; not: SGLD", lines[1])

    @parameterized.parameters("ChEES", "MAMS", "MCLMC", "MILE", "IVON", "VBLL")
    def test_methods_that_the_lecture_has_not(self, name: str) -> None:
        """Each tells two classes apart, and by several functions."""
        problem = problems.two_classes(30, 0)
        run = running.Run(epochs=4, chain_steps=50, num_chains=2, seed=0)
        with mock.patch.object(methods, "NETWORKS", 2):
            posterior = posterior_table.METHODS[name](problem, run)
        prediction = running.predicted(posterior, problem.x, 20)
        accuracy = np.mean((prediction.mean > 0.5) == problem.y)
        self.assertGreater(accuracy, 0.8)
        self.assertGreater(prediction.epistemic_variance.mean(), 1e-5)

    def test_all_of_it_goes_on_where_it_was(self) -> None:
        chosen = {"SGHMC": posterior_table.METHODS["SGHMC CLR"]}
        with tempfile.TemporaryDirectory() as folder:
            flags = ["--data", "digits", "--N", "200", "--units", "5", "--n_epochs", "3"]
            flags += ["--samples", "20", "--chains", "2", "--seeds", "2", "--S", "10"]
            flags += ["--savedir", folder]
            with (
                mock.patch.object(posterior_table, "METHODS", chosen),
                mock.patch.object(running, "STEPS_AN_EPOCH", 1000),
            ):
                tutorial_runs.run(posterior_table, *flags)
                records = Path(folder, "posterior_table.jsonl")
                both = records.read_text()
                first, second = both.splitlines(keepends=True)
                records.write_text(first)
                with mock.patch.object(reference, "sampled", side_effect=OSError):
                    tutorial_runs.run(posterior_table, *flags)
            self.assertEqual(records.read_text().splitlines(keepends=True)[0], first)
            again = json.loads(records.read_text().splitlines()[1])
            self.assertEqual(again, json.loads(second) | {"seconds": again["seconds"]})
            log = tfbdl.read_log(Path(folder, "runs", "sghmc_1", "train.log"))
            self.assertEqual(log.epochs.tolist(), [1, 2, 3])
            self.assertIn("R-hat of", Path(folder, "posterior_table.md").read_text())
            self.assertTrue(Path(folder, "posterior_table.png").exists())
            actual = json.loads(Path(folder, "metrics.json").read_text())
        for record in (*actual["hmc"], *actual["sghmc"]):
            self.assertGreater(record["accuracy"], 0.6)
            self.assertGreater(record["agreement"], 0.7)


@pytest.mark.usefixtures("without_xla")
class CyclesTest(tf.test.TestCase):
    def test_equal_rates_and_as_many_samples(self) -> None:
        """The epochs that are kept are each second one, or those in the second half of a cycle."""
        problem = problems.two_classes(20, 0)
        with tempfile.TemporaryDirectory() as folder:
            for cyclical in (False, True):
                run = running.Run(40, 0, 0, 0, Path(folder, f"{cyclical}"))
                posterior = cycles.sampled("SGHMC", 0.5, cyclical, problem, run)
                files = Path(folder, f"{cyclical}", "samples").glob("*.npz")
                kept = sorted(int(path.stem.split("_")[1]) for path in files)
                later = range(9, 41)
                expected = [e for e in later if ((e - 1) % 4 >= 2 if cyclical else e % 2 == 0)]
                self.assertEqual(kept, expected)
                self.assertLen(posterior.sample(), 16)
                log = tfbdl.read_log(Path(folder, f"{cyclical}", "train.log"))
                self.assertAllClose(max(log.learning_rates), 0.5 * problem.rate)

    def test_all_of_it_goes_on_where_it_was(self) -> None:
        flags = ["--data", "digits", "--N", "100", "--n_epochs", "10", "--samples", "20"]
        with tempfile.TemporaryDirectory() as folder:
            flags += ["--seeds", "2", "--S", "5", "--savedir", folder]
            with (
                mock.patch.object(cycles, "CHAINS", {4: 2}),
                mock.patch.object(cycles, "RATES", {"SGHMC": (0.3,)}),
                mock.patch.object(running, "STEPS_AN_EPOCH", 100),
            ):
                tutorial_runs.run(cycles, *flags)
                records = Path(folder, "cycles.jsonl")
                first = records.read_text().splitlines(keepends=True)
                records.write_text(first[0])
                with mock.patch.object(reference, "sampled", side_effect=OSError):
                    tutorial_runs.run(cycles, *flags)
            self.assertLen(first, 4)
            self.assertEqual(records.read_text().splitlines(keepends=True), first)
            self.assertTrue(Path(folder, "cycles.png").exists())
            self.assertIn("| SGHMC | 0.3, cyclical | 2 |", Path(folder, "cycles.md").read_text())


@pytest.mark.usefixtures("without_xla")
class ScriptTest(tf.test.TestCase):
    def test_two_classes(self) -> None:
        """Draws of the prior, whose predictions differ from each other by what NumPy says."""
        problem = problems.two_classes(20, 0)
        thetas = np.random.default_rng(0).normal(size=(2, 4, 81)).astype("float32")
        outputs = {
            name: WeightEnsemble(problem.network(0), theta)
            for name, theta in zip(("HMC", "MAP"), thetas, strict=True)
        }
        for model in outputs.values():
            model.compile(loss=problem.likelihood)
        rows = bands.measure_two_classes(outputs, 4, seed=0)
        self.assertEqual(rows["HMC"]["total variation"], 0.0)
        p = [
            np.mean(
                [scipy.special.expit(by_hand(problem, split(w), bands.PLANE)) for w in theta], 0
            )
            for theta in thetas
        ]
        self.assertAllClose(rows["MAP"]["total variation"], np.abs(p[0] - p[1]).mean(), rtol=1e-4)
        self.assertLen(bands.two_classes(problem, outputs, 4).axes, 5)

    def test_all_modes(self) -> None:
        """Modes of the regression; weights at which the others linearise are draws of the prior."""
        names = ("HMC", "Laplace", "neural linear")
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.object(script, "METHODS", {name: script.METHODS[name] for name in names}),
            mock.patch.object(script, "PROBLEMS", {"regression": script.PROBLEMS["regression"]}),
            mock.patch.object(methods, "at_mode", lambda problem, run: problem.network(run.seed)),
        ):
            flags = ["--N", "12", "--steps", "30", "--chains", "2", "--S", "40"]
            for mode in ("train", "visualize"):
                tutorial_runs.run(script, *flags, "--savedir", folder, "--mode", mode)
            actual = json.loads(Path(folder, "metrics.json").read_text())
            figures = {path.stem for path in Path(folder).glob("*.png")}
        self.assertEqual(figures, {"regression", "chains", "laplace_steps", "sparse_mode"})
        self.assertEqual(set(actual["regression"]), set(names))
        self.assertEqual(set(actual["chains"]), {"HMC"})
        sparse = actual["sparse_mode"]["Laplace's prior"]
        self.assertGreater(sparse["zeros of the mode"], 0.4)
        self.assertLess(sparse["small in a sample"], 0.3)


def split(theta: np.ndarray) -> list[np.ndarray]:
    """Weights of 2-20-1."""
    w, b, v, c = np.split(theta, np.cumsum([40, 20, 20]))
    return [w.reshape(2, 20), b, v.reshape(20, 1), c]


if __name__ == "__main__":
    unittest.main()
