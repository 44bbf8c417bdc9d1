"""Methods that take a log density in place of a network."""

import copy
import pickle
import tempfile
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized
from every_method import CHAINS, METHODS, OF_ALL, X, Y, asked, fitted, network
from known_targets import START, density

import tfbdl
from tfbdl import layers, priors
from tfbdl.inference import HMC, MAP, MCMC, NUTS, Laplace, LogPosterior
from tfbdl.keras_private import walk


class DensityTest(tf.test.TestCase, parameterized.TestCase):
    """Chains and searches on any log density."""

    def test_mode(self) -> None:
        mode = MAP(density, **START).fit()
        self.assertAllClose(mode.theta, [2.0, 2.0], atol=1e-3)
        self.assertAllClose(mode.sample(3), [[2.0, 2.0]], atol=1e-3)
        self.assertRegex(str(mode.summary()), "(?m)^theta .*2")

    def test_chains(self) -> None:
        sizes = {"num_warmup": 200, "num_samples": 500, "num_chains": 4}
        chains = MCMC(density, kernel=NUTS(), **START, **sizes).fit(verbose=0)
        summary = chains.summary().quantities["theta"]
        error = 5 * summary.stddev / np.sqrt(np.minimum(summary.ess_bulk, 2000))
        self.assertAllInRange((summary.mean - 2.0) / error, -1.0, 1.0)
        self.assertAllClose(summary.stddev, [1.0, 0.5], rtol=0.15)

    def test_chains_draw_where_a_posterior_starts_them(self) -> None:
        """In each fit, by its seed; the argument stays, and copies have the points in its place."""
        laplace = Laplace(network(), **OF_ALL).fit(X, Y)
        sizes = {"num_warmup": 0, "num_samples": 2, "num_chains": 3, "jit_compile": False}
        still = HMC(step_size=1e-9, trajectory_length=1e-9)
        chains = MCMC(laplace.model, 1.0, kernel=still, initial=laplace, **sizes)
        given = chains.initial
        self.assertEqual(repr(given), repr(laplace))
        others = [pickle.loads(pickle.dumps(chains)), copy.copy(chains), copy.deepcopy(chains)]
        others.append(MCMC.from_config(chains.get_config()))
        for each in (chains, *others):
            theta = each.fit(X, Y, verbose=0).theta[0]
            self.assertAllClose(theta, laplace.sample(3, seed=0), atol=1e-5)
        chains.seed = 7
        for data in ((X, Y), (X[::2], Y[::2])):
            expected = laplace.fit(*data).sample(3, seed=7)
            self.assertAllClose(chains.fit(X, Y, verbose=0).theta[0], expected, atol=1e-5)
        self.assertIs(chains.initial, given)
        laplace.fit(X[::3], Y[::3])  # what starts a next fit, and not what started this one
        with tempfile.TemporaryDirectory() as folder:
            chains.save(f"{folder}/p.keras")
            loaded = tfbdl.load(f"{folder}/p.keras")
        self.assertAllEqual(loaded.initial, expected)
        self.assertAllEqual(loaded.theta, chains.theta)
        self.assertLen(list(walk(chains)), len(list(walk(chains.model))) + 1)
        with self.assertRaisesRegex(ValueError, r"^initial=Laplace.* is a posterior; give"):
            MAP(laplace.model, 1.0, initial=laplace)

    @parameterized.parameters(MAP, MCMC)
    def test_they_take_no_data_and_make_no_network(self, kind: Any) -> None:
        made = kind(density, **START)
        for given in ({"x": X, "y": Y}, {"y": Y}, {"batch_size": 3}):
            with self.assertRaisesRegex(ValueError, f"^{next(iter(given))} is for a keras.Model"):
                made.fit(**given)
        with self.assertRaisesRegex(ValueError, "^prior=1.0 is for a keras.Model"):
            kind(density, 1.0)
        with self.assertRaisesRegex(ValueError, "^likelihood=.* is for a keras.Model"):
            kind(density, likelihood=tfbdl.likelihoods.Normal())
        with self.assertRaisesRegex(ValueError, "^prior=None: a network's weights need one"):
            kind(network())
        with self.assertRaisesRegex(ValueError, "^x=None: give inputs"):
            kind(network(), 1.0).fit()
        plain = network()
        plain.compile("sgd", "mse")
        with self.assertRaisesRegex(ValueError, "^likelihood=None: the loss of model=net is no"):
            kind(plain, 1.0)
        for wrong, message in (
            (-1.0, "^prior=-1.0 must be "),
            (priors.ARD(), "^prior=ARD has scales with a posterior of their own"),
            ({"first": 1.0}, "^prior names none for the weight 'last/kernel'"),
            ({"*": 1.0, "nose": 1.0}, "^prior names 'nose'; the weights are first/kernel, "),
        ):
            with self.assertRaisesRegex(ValueError, message):
                kind(network(), wrong)
        random_model = keras.Sequential([keras.Input((2,)), layers.BayesDense(1, num_data=9)])
        with self.assertRaisesRegex(ValueError, "^model=.* has the random layer"):
            kind(random_model, 1.0, likelihood=tfbdl.likelihoods.Normal())
        with self.assertRaisesRegex(ValueError, "^model='net' must be a keras.Model, or a func"):
            kind("net")

    @parameterized.parameters("mcmc", "map")
    def test_a_log_posterior_is_a_density_with_a_network(self, name: str) -> None:
        target = LogPosterior(network(), 1.0, X, Y, dtype=fitted(name).dtype)
        given = {"mcmc": {"kernel": HMC(step_size=0.01), **CHAINS}}.get(
            name, {"max_iterations": 3000, "jit_compile": False}
        )
        by_density = type(fitted(name))(target, **given).fit(**METHODS[name].fit)
        self.assertAllEqual(by_density.theta, fitted(name).theta)
        self.assertAllClose(asked(by_density).mean, asked(fitted(name)).mean, 1e-6)


if __name__ == "__main__":
    tf.test.main()
