"""The lecture on priors: its formulas, and that each part shows what it says."""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import tensorflow as tf
import tutorial_runs
from absl.testing import parameterized

import tfbdl
from tfbdl.data import gapped_sine
from tutorials import image_data
from tutorials.priors import __main__ as script
from tutorials.priors import (
    discrete,
    empirical_bayes,
    families,
    influence,
    limit,
    relevance,
    sparsity,
    structure,
)


class FamiliesTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters([*families.FINITE, *families.DISCRETE])
    def test_variance_is_one_over_the_width(self, family: str) -> None:
        """The integral of w^2 p(w), and of p(w) itself."""
        prior = families.FAMILIES[family](7)
        if prior.discrete:
            self.assertAllClose(np.mean(np.square(prior.values)), 1 / 7, rtol=1e-6)
            return
        u = np.linspace(-20, 8, 8001)  # w = exp(u)
        w = np.exp(u)
        p = np.exp(prior.log_prob(tf.constant(w)))
        self.assertAllClose(2 * scipy.integrate.trapezoid(p * w, u), 1.0, rtol=1e-5)
        second = 2 * scipy.integrate.trapezoid(p * w**3, u)
        self.assertAllClose(second, 1 / 7, rtol=2e-3)  # the tail of t beyond e^8

    @parameterized.parameters(*families.HEAVY)
    def test_tails_without_a_variance(self, family: str) -> None:
        """Where w^2 p(w) is the same at all scales of w, sums of H weights grow like H."""
        prior = families.FAMILIES[family](7)
        log_p = getattr(prior, "marginal_log_prob", prior.log_prob)
        w = tf.constant([1e3, 1e4, 1e5], tf.float64)
        values = np.exp(log_p(w) + 2 * tf.math.log(w))
        self.assertAllClose(values, values[:1].repeat(3), rtol=1e-5)


class InfluenceTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*influence.DENSITIES)
    def test_is_the_slope_of_the_log_density(self, family: str) -> None:
        w = np.array([-20.0, -1.5, -0.2, 0.05, 0.7, 3.0, 50.0])
        log_p = influence.log_density(family)
        step = 1e-5 * np.abs(w)
        ends = [log_p(tf.constant(w + sign * step)).numpy() for sign in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * step)
        self.assertAllClose(influence.influence(family, w), slope, rtol=1e-5, atol=1e-8)

    def test_which_are_bounded(self) -> None:
        """The pull on a weight that grows tenfold: as much more, the same, or less."""
        for family, factor in (
            ("normal", 10.0),
            ("Laplace", 1.0),
            ("Student t, df = 3", 0.1),
            ("Cauchy", 0.1),
            ("horseshoe", 0.1),
        ):
            near, far = influence.influence(family, [1e3, 1e4])
            self.assertAllClose(far / near, factor, rtol=1e-2)


class LimitTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters("relu", "erf")
    def test_kernel_is_the_expectation(self, activation: str) -> None:
        """A million hidden units, and an integral on the diagonal."""
        x = np.array([[-0.7], [0.1], [0.4]])
        actual = limit.kernel(activation, x)
        units = np.random.default_rng(0).normal(scale=limit.SCALE, size=(2, 1_000_000))
        phi = limit.ACTIVATIONS[activation]
        h = phi(tf.constant(x * units[0] + units[1])).numpy()
        for i, j in np.ndindex(3, 3):
            products = h[i] * h[j]
            error = 5 * products.std() / math.sqrt(products.size)
            self.assertAllClose(actual[i, j], products.mean(), rtol=0, atol=error)
        for i, (point,) in enumerate(x):
            stddev = limit.SCALE * math.hypot(point, 1)
            law = scipy.stats.norm(scale=stddev)
            expected = scipy.integrate.quad(
                lambda u, law=law: float(phi(tf.constant(u, tf.float64))) ** 2 * law.pdf(u),
                -10 * stddev,
                10 * stddev,
                points=[-3, 0, 3],
                limit=200,
            )[0]
            self.assertAllClose(actual[i, i], expected, rtol=1e-6)

    def test_limiting_share(self) -> None:
        """The definition of the law: jumps of a stable subordinator of index 1/2."""
        self.assertAllClose(limit.limiting_share(1e-6), 1.0, atol=1e-4)
        times = np.random.default_rng(0).exponential(size=(5000, 1000)).cumsum(axis=1)
        jumps = times**-2.0
        share = jumps[:, 0] / jumps.sum(axis=1)
        error = 5 * share.std() / math.sqrt(len(share)) + 2e-3  # what is behind the 1,000th
        self.assertAllClose(limit.limiting_share(), share.mean(), atol=error)

    def test_drawn_networks(self) -> None:
        """The distance of kernels falls with H^-1/2, and what is normal becomes so, or does not."""
        widths = (4, 100)
        with mock.patch.multiple(limit, WIDTHS=widths, NETWORKS=100, FUNCTIONS=20_000):
            rows = limit.measure(argparse.Namespace(seed=0), {})
        distance = [rows[f"H = {h}"]["kernel distance, relu"] for h in widths]
        self.assertAllClose(rows["slope"]["kernel distance, relu"], -0.5, atol=0.1)
        self.assertAllClose(rows["slope"]["kernel distance, erf"], -0.5, atol=0.06)
        self.assertEqual(distance, sorted(distance, reverse=True))
        self.assertAllClose(
            rows["H = 100"]["excess kurtosis, relu"], 0.15, atol=5 * math.sqrt(24 / 20_000)
        )
        shares = [rows["H = 100"][f"largest share, {name}"] for name in limit.OUTPUT]
        self.assertLess(shares[0], 0.15)
        self.assertAllClose(shares[1], limit.limiting_share(), atol=0.12)


class EmpiricalBayesTest(tf.test.TestCase):
    def test_evidence(self) -> None:
        """Draws of the prior are weighed, in a model of so few points that they suffice."""
        x, y = gapped_sine(2, 0)
        phi = empirical_bayes.features(x)
        w = np.random.default_rng(0).normal(scale=0.5, size=(7, 1_000_000))
        logs = scipy.stats.norm.logpdf(y, phi @ w, empirical_bayes.NOISE).sum(axis=0)
        p = np.exp(logs)
        actual = math.exp(2 * empirical_bayes.log_evidence(0.5, phi, y))
        self.assertAllClose(actual, p.mean(), atol=5 * p.std() / 1000)

    def test_best_scale(self) -> None:
        x, y = gapped_sine(20, 0)
        phi = empirical_bayes.features(x)
        best = empirical_bayes.best_scale(phi, y)
        highest = empirical_bayes.log_evidence(best, phi, y)
        for scale in (0.99 * best, 1.01 * best):
            self.assertLess(empirical_bayes.log_evidence(scale, phi, y), highest)


class SparsityTest(tf.test.TestCase):
    def test_regression(self) -> None:
        """The noise has its scale, and least squares on the inputs that count finds the weights."""
        x, y, w = sparsity.regression(0)
        self.assertAllEqual(np.flatnonzero(w), range(5))
        chi2 = np.sum(np.square(y[:, 0] - x @ w)) / sparsity.NOISE**2
        self.assertAllClose(chi2, len(x), atol=4 * math.sqrt(2 * len(x)))
        actual, *_ = np.linalg.lstsq(x[:, :5], y[:, 0], rcond=None)
        self.assertAllClose(actual, w[:5], atol=5 * sparsity.NOISE / math.sqrt(len(x)))

    def test_figures_and_what_is_pruned(self) -> None:
        """Weights that are all removed leave logits of 0, so that class 0 is predicted."""
        args = argparse.Namespace(seed=0, N=200, n_epochs=1, batch_size=100)
        data = image_data.chosen(script.parser().parse_args(["--data", "digits", "--N", "200"]))
        with mock.patch.object(sparsity, "PRIORS", {"normal": sparsity.PRIORS["normal"]}):
            models = {
                "regression_normal": sparsity.linear(sparsity.PRIORS["normal"](), 0),
                "digits_normal": sparsity.classifier(sparsity.PRIORS["normal"](), args),
            }
            names = [f"acc, {100 * fraction:g} % removed" for fraction in sparsity.FRACTIONS]
            rows = {"digits_normal": dict.fromkeys(names, 0.5)}
            made = sparsity.figures(args, models, rows)
        self.assertEqual(set(made), {"sparse_regression", "sparse_digits"})
        for q in models["digits_normal"].layers:
            q.kernel.remove(np.ones(q.kernel.mean.shape, bool))
        actual = sparsity.accuracy(models["digits_normal"], data)
        self.assertAllClose(actual, np.mean(data.y_test == 0))


class DiscreteTest(tf.test.TestCase):
    def test_mode(self) -> None:
        """Is the network of certain weights, once each is the more probable of its values."""
        args = argparse.Namespace(seed=0, N=200, n_epochs=1, batch_size=100)
        model = discrete.network("binary", args)
        x = np.random.default_rng(0).uniform(size=(5, 784)).astype("float32")
        actual = discrete.mode(model, x)
        for layer in model.layers:
            values = layer.kernel.raw_logit
            values.assign(100.0 * tf.sign(tf.convert_to_tensor(values)))
        self.assertAllClose(actual, model(x), rtol=1e-4, atol=1e-4)


class StructureTest(tf.test.TestCase):
    def test_correlation_of_neighbours(self) -> None:
        """A filter drawn with lengthscale 1 has exp(-1/2); independent weights have 0."""
        for name, expected in (("independent", 0.0), ("smooth", math.exp(-0.5))):
            prior = structure.DRAWN[name]
            w = prior.sample(tf.constant(12, tf.int64), (7, 7, 1, 4000))
            self.assertAllClose(structure.neighbour_correlation(w), expected, atol=0.01)

    def test_groups(self) -> None:
        """Scales that are put in come out, in the order of the gates, and are drawn."""
        args = argparse.Namespace(seed=0, N=200, n_epochs=1, batch_size=100)
        models = {
            name.replace(" ", "_"): structure.convolution(prior(), args)
            for name, prior in structure.CONVOLUTIONS.items()
        }
        models["lstm"] = structure.recurrent(args)
        lstm = models["lstm"].layers[1]
        lstm.prior.scale_posterior.m.assign(np.log([[0.1, 0.2, 0.3, 0.4]]))
        median, stddev = structure.gate_scales(models["lstm"])["input"]
        self.assertAllClose(median, [0.1, 0.2, 0.3, 0.4])
        self.assertAllClose(stddev, np.ravel(lstm.prior.scale_posterior.stddev))
        self.assertAllClose(np.ravel(lstm.prior.scale)[:: structure.LSTM_UNITS], median)
        self.assertLen(median, len(structure.GATES))
        prior = models["scale_of_each_filter"].layers[1].prior
        self.assertAllClose(np.exp(structure.log_scale(prior)[0]), prior.scale)
        self.assertEqual(set(structure.figures(args, models, {})), {"filters", "groups"})


@pytest.mark.usefixtures("without_xla")
class ScriptTest(unittest.TestCase):
    def run_parts(self, savedir: str, *parts: str) -> tuple[dict[str, Any], set[str]]:
        """The numbers and the names of the figures that they leave."""
        flags = ["--data", "digits", "--n_epochs", "2", "--N", "200", "--S", "5"]
        flags += ["--savedir", savedir, "--parts", *parts]
        for mode in ("train", "visualize"):
            tutorial_runs.run(script, *flags, "--mode", mode)
        actual = json.loads(Path(savedir, "metrics.json").read_text())
        return actual, {path.stem for path in Path(savedir).glob("*.png")}

    def test_all_modes_without_files(self) -> None:
        """ARD pulls the inputs that are noise to zero; a learned scale is that of the evidence."""
        full = {"full": empirical_bayes.MODELS["full"]}
        with (
            tempfile.TemporaryDirectory() as savedir,
            mock.patch.multiple(relevance, PRIORS={"ARD": "ard"}, EPOCHS={"made": 20}),
            mock.patch.multiple(empirical_bayes, MODELS=full, GRID=()),
            mock.patch.object(discrete, "SETTINGS", {"binary": discrete.SETTINGS["binary"]}),
        ):
            parts = ("influence", "relevance", "empirical_bayes", "discrete")
            actual, figures = self.run_parts(savedir, *parts)
            log = tfbdl.read_log(Path(savedir, "discrete", "binary", "train.log"))
        self.assertEqual(figures, set(parts))
        self.assertEqual(list(log.metrics), ["cent", "kl", "acc"])
        self.assertEqual(log.epochs.tolist(), [1, 2])
        row = actual["relevance"]["made_ARD"]
        self.assertLess(row["weights of noise"], 0.1 * row["weights of relevant inputs"])
        learned, best = (actual["empirical_bayes"][name] for name in ("full_learned", "evidence"))
        np.testing.assert_allclose(learned["scale"], best["scale"], rtol=0.05)
        np.testing.assert_allclose(learned["elbo"], best["log evidence"], atol=0.05)


if __name__ == "__main__":
    unittest.main()
