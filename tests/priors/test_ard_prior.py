"""Automatic relevance determination: its convention, and that it finds the relevant inputs."""

import math
from typing import Any

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized
from prior_checks import PriorChecks

import tfbdl
from tfbdl import likelihoods, priors
from tfbdl.layers import BayesDense


class ARDTest(PriorChecks, tf.test.TestCase, parameterized.TestCase):
    def test_rate_is_a_rate(self) -> None:
        """Precisions s^-2 of the inputs, from 4,000 weights each, have the mean shape / rate."""
        prior = priors.ARD(3.0, 0.5)
        w = np.asarray(prior.sample(tf.constant(123, tf.int64), (2000, 4000)), np.float64)
        precision = 1 / np.mean(w**2, axis=1)
        p = scipy.stats.gamma(3.0, scale=1 / 0.5)
        self.assertGreater(scipy.stats.kstest(precision, p.cdf).pvalue, 1e-5)
        self.assert_mean(precision, 3.0 / 0.5)

    def test_is_an_inverse_gamma_scale(self) -> None:
        ard = priors.ARD(1.5, 0.6)
        other = priors.InverseGammaScale(3.0, math.sqrt(0.6 / 1.5), "input")
        for prior in (ard, other):
            prior.attach((3, 4))
        mu = tf.constant(np.random.default_rng(0).normal(size=(3, 4)))
        for f in (lambda p: p.log_prob(mu), lambda p: p.kl()):
            self.assertAllClose(f(ard), f(other), 1e-6)

    def test_starts_with_equal_scales(self) -> None:
        prior = priors.ARD()
        prior.attach((3, 4))
        self.assertAllClose(prior.scale, np.ones((3, 1)), 1e-6)

    def test_defaults(self) -> None:
        """The median of s is 0.15, and a weight on its own is Cauchy distributed."""
        median = scipy.stats.gamma(0.5, scale=1 / 0.005).median()
        self.assertAllClose(median**-0.5, 0.15, atol=0.005)
        prior = priors.ARD(groups="weight")
        self.assert_law(prior, scipy.stats.cauchy(0, 0.1).cdf)

    def test_switches_irrelevant_inputs_off(self) -> None:
        """A network of five inputs, of which y depends on the first two."""
        keras.utils.set_random_seed(0)
        rng = np.random.default_rng(0)
        x = rng.normal(size=(300, 5)).astype("float32")
        noise = rng.normal(0, 0.1, (300, 1))
        y = (np.sin(2 * x[:, :1]) + x[:, 1:2] + noise).astype("float32")
        common = {"num_data": 300, "estimator": "local_reparameterization"}
        first = BayesDense(10, "tanh", prior="ard", **common)
        model = keras.Sequential([keras.Input((5,)), first, BayesDense(1, **common)])
        model.compile(keras.optimizers.Adam(0.03), likelihoods.Normal(0.1))
        tfbdl.train(model, x, y, epochs=800, batch_size=300, verbose=0)
        scale = np.ravel(first.prior.scale)
        self.assertGreater(scale[:2].min(), 4 * scale[2:].max())
        rms = np.sqrt(np.mean(np.square(first.kernel.mean), axis=1))
        self.assertGreater(rms[:2].min(), 4 * rms[2:].max())
        self.assertLess(np.mean((model(x) - y) ** 2), 0.15**2)

    @parameterized.parameters(0, -1.0, math.inf, math.nan, None)
    def test_arguments_are_checked(self, wrong: Any) -> None:
        for name in ("shape", "rate"):
            with self.assertRaisesRegex(ValueError, f"^{name}=.* must be a positive number$"):
                priors.ARD(**{name: wrong})


if __name__ == "__main__":
    tf.test.main()
