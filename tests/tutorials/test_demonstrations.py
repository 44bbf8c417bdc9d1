"""Demonstrations of the lectures on priors and inference: their formulas, by other ways."""

from __future__ import annotations

import argparse
import json
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tutorial_runs
from absl.testing import parameterized

from tutorials.posterior_inference import symmetries, trajectories
from tutorials.posterior_inference.symmetries import Units
from tutorials.priors import __main__ as priors_script
from tutorials.priors import deep_limit, jeffreys, joint

RNG = np.random.default_rng(0)


class DeepLimitTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(1, 2, 3)
    def test_kernel_is_the_expectation_layer_by_layer(self, depth: int) -> None:
        """Quadrature of relu(a) relu(b) over two normals of the layer before."""
        nodes = np.linspace(-9, 9, 1201)
        weights = scipy.stats.norm.pdf(nodes) * (nodes[1] - nodes[0])
        for angle in (0.4, 1.3, 2.6):
            cosine = np.cos(angle)
            for _ in range(depth):
                a = np.maximum(nodes, 0)
                b = np.maximum(cosine * nodes[:, None] + np.sqrt(1 - cosine**2) * nodes[None, :], 0)
                cosine = 2 * float(np.einsum("i,j,i,ij->", weights, weights, a, b))
            self.assertAllClose(deep_limit.kernel(depth, np.array(angle)), cosine / 2, atol=1e-4)

    @parameterized.parameters((1, 5), (2, 20))
    def test_excess_kurtosis_of_drawn_networks(self, depth: int, width: int) -> None:
        """NumPy has it too: f given h is normal with the variance of the mean of h^2."""
        h = np.tile([[1.0, 0.0]], (200_000, 1))
        for _ in range(depth):
            scale = np.sqrt(2 / h.shape[1] * np.sum(h**2, 1, keepdims=True))
            h = np.maximum(scale * RNG.standard_normal((len(h), width)), 0)
        variance = np.mean(h**2, 1)
        kurtosis = 3 * np.mean(variance**2) / np.mean(variance) ** 2 - 3
        self.assertAllClose(deep_limit.excess_kurtosis(depth, width), kurtosis, rtol=0.1)

    def test_networks_have_that_covariance(self) -> None:
        with mock.patch.object(deep_limit, "NETWORKS", 4000):
            moments = deep_limit.moments(2, 50, seed=1)
        error = 3.5 * 0.5 * np.sqrt((2 + 3 * 0.3) / 4000)
        limit = deep_limit.kernel(2, deep_limit.ANGLES)
        self.assertAllClose(moments["covariance"], limit, atol=error)


class JeffreysTest(tf.test.TestCase):
    def test_jacobian_by_autodiff(self) -> None:
        w, v = tf.Variable(1.3, dtype=tf.float64), tf.Variable(-0.7, dtype=tf.float64)
        with tf.GradientTape() as tape:
            f = v * tf.tanh(w * jeffreys.X)
        by_autodiff = np.stack(tape.jacobian(f, [w, v]), axis=-1)
        self.assertAllClose(jeffreys.jacobian(np.array(1.3), np.array(-0.7)), by_autodiff)

    def test_volume_is_that_of_the_predictions(self) -> None:
        """The area of the parallelogram that two tangents span."""
        a, b = np.moveaxis(jeffreys.jacobian(np.array(1.3), np.array(-0.7)), -1, 0)
        area = np.sqrt(a @ a * (b @ b) - (a @ b) ** 2)
        self.assertAllClose(jeffreys.jeffreys(np.array(1.3), np.array(-0.7)), area)

    def test_same_law_in_other_coordinates(self) -> None:
        u, v = RNG.normal(size=9), RNG.normal(size=9)
        there = jeffreys.jeffreys_of_log(u, v)
        self.assertAllClose(there, jeffreys.jeffreys(np.exp(u), v) * np.exp(u), rtol=1e-9)

    def test_zero_where_a_weight_has_no_effect(self) -> None:
        nothing = jeffreys.jeffreys(np.array([0.0, 2.0]), np.array([1.0, 0.0]))
        self.assertAllClose(nothing, [0.0, 0.0], atol=1e-12)


class JointTest(tf.test.TestCase, parameterized.TestCase):
    def test_t_of_all_layers(self) -> None:
        size = joint.UNITS + 1
        shape = (joint.DEGREES - 2) / joint.DEGREES * joint.single_covariance()
        theta = 0.3 * RNG.normal(size=size)
        expected = scipy.stats.multivariate_t(shape=shape, df=joint.DEGREES).logpdf(theta)
        self.assertAllClose(joint.of_all_layers(tf.constant(theta)), expected, rtol=1e-6)

    def test_normals(self) -> None:
        theta = 0.1 * RNG.normal(size=joint.UNITS + 1)
        for covariance in (joint.single_covariance(), joint.layer_covariance()):
            expected = scipy.stats.multivariate_normal.logpdf(theta, cov=covariance)
            got = joint.normal(covariance)(tf.constant(theta, tf.float32))
            self.assertAllClose(got, expected, rtol=1e-3)

    def test_variances_of_single_weights_are_the_same(self) -> None:
        by_layer, single = joint.layer_covariance(), joint.single_covariance()
        self.assertAllClose(np.diag(by_layer), np.diag(single))

    def test_functions_are_those_of_the_network(self) -> None:
        theta = RNG.normal(size=(1, joint.UNITS + 1))
        model = joint.network()
        model.set_weights([theta[0, :-1, None], theta[0, -1:]])
        f = np.asarray(model(np.tanh(2 * (joint.LINE - joint.CENTRES))))[:, 0]
        self.assertAllClose(joint.functions(theta)[0], f, atol=1e-4)


class SymmetriesTest(tf.test.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.units = Units.of(RNG.normal(size=(5, 3 * 4 + 1)))

    def f(self, units: Units, phi: object) -> np.ndarray:
        x = np.linspace(-2, 2, 7)[:, None, None]
        return np.sum(units.v * phi(units.w * x + units.b), -1, keepdims=True) + units.c

    def test_maps_keep_the_function(self) -> None:
        relu = lambda a: np.maximum(a, 0)  # noqa: E731
        f = self.f(self.units, np.tanh)
        self.assertAllClose(self.f(self.units.permuted(np.tile([2, 0, 3, 1], (5, 1))), np.tanh), f)
        self.assertAllClose(self.f(self.units.turned(RNG.choice([-1.0, 1.0], 4)), np.tanh), f)
        self.assertAllClose(self.f(self.units.ordered(), np.tanh), f)
        scaled = self.units.scaled(np.exp(RNG.normal(size=4)))
        self.assertAllClose(self.f(scaled, relu), self.f(self.units, relu))

    def test_order_is_one_for_all_that_are_the_same(self) -> None:
        other = self.units.turned(RNG.choice([-1.0, 1.0], 4)).permuted(
            np.tile([2, 0, 3, 1], (5, 1))
        )
        self.assertAllClose(other.ordered().theta, self.units.ordered().theta)

    def test_place_on_the_curve_is_uniform_under_the_prior(self) -> None:
        """Weights drawn from N(0, 1) are somewhere on their curve, by its law."""
        prior = Units.of(RNG.normal(size=(200, 3 * 4 + 1)))
        u = symmetries.on_curve(prior).ravel()
        self.assertGreater(scipy.stats.kstest(u, "uniform").pvalue, 1e-3)


class TrajectoriesTest(tf.test.TestCase):
    def test_volume_and_the_way_back(self) -> None:
        """A step on N(0, 1) is a matrix: its determinant, and its inverse with v turned round."""
        h, turn = 0.3, np.diag([1.0, -1.0])
        for name, volume, returns in (
            ("leapfrog", 1.0, True),
            ("Euler, new velocity", 1.0, False),
            ("Euler, old velocity", 1 + h**2, False),
        ):
            step = trajectories.METHODS[name]
            matrix = np.array([step(q, v, h) for q, v in np.eye(2)]).T
            self.assertAllClose(np.linalg.det(matrix), volume, msg=name)
            back = np.allclose(turn @ matrix @ turn @ matrix, np.eye(2))
            self.assertEqual(back, returns, name)

    def test_what_chains_find(self) -> None:
        args = argparse.Namespace(seed=0, chains=100, samples=400)
        good = trajectories.chains(trajectories.leapfrog, 1, args)
        bad = trajectories.chains(trajectories.old_velocity, 1, args)
        self.assertLess(abs(good["variance"] - 1), 5 * good["standard error"])
        self.assertGreater(bad["variance"] - 1, 5 * bad["standard error"])


@pytest.mark.usefixtures("without_xla")
class ScriptTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.savedir = Path(folder.name)

    def metrics(self) -> dict[str, Any]:
        return json.loads((self.savedir / "metrics.json").read_text())

    def test_parts_of_priors(self) -> None:
        short = (
            mock.patch.multiple(deep_limit, DEPTHS=(1,), WIDTHS=(5, 20), NETWORKS=100, FUNCTIONS=5),
            mock.patch.multiple(joint, STEPS=20),
        )
        with short[0], short[1]:
            for mode in ("test", "visualize"):
                flags = ("--mode", mode, "--parts", "deep_limit", "joint", "jeffreys")
                tutorial_runs.run(priors_script, *flags, "--savedir", str(self.savedir))
        figures = {path.stem for path in self.savedir.glob("*.png")}
        self.assertEqual(figures, {"deep_limit", "deep_jumps", "joint", "jeffreys"})
        jeffreys_rows = self.metrics()["jeffreys"]
        self.assertLess(jeffreys_rows["Jeffreys"]["mass of |v| < 0.3"], 0.02)

    def test_symmetries_and_trajectories(self) -> None:
        for module, flags in (
            (symmetries, ("--units", "3", "--samples", "50", "--chains", "2")),
            (trajectories, ("--chains", "5", "--samples", "20")),
        ):
            tutorial_runs.run(module, *flags, "--savedir", str(self.savedir))
        figures = {path.stem for path in self.savedir.glob("*.png")}
        self.assertEqual(figures, {"symmetries", "trajectories"})
        tanh = self.metrics()["symmetries"]["tanh, one sample"]
        self.assertAlmostEqual(tanh["change places: change of log likelihood"], 0.0, places=8)
        self.assertAlmostEqual(tanh["signs: change of log prior"], 0.0, places=8)
        self.assertGreater(abs(tanh["scales: change of log likelihood"]), 1e-3)


if __name__ == "__main__":
    tf.test.main()
