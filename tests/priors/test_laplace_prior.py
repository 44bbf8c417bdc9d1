"""The Laplace prior against SciPy, integration and Monte Carlo."""

import math
from typing import Any

import keras
import numpy as np
import scipy.special
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized
from prior_checks import MU, SIGMA, TAILS, PriorChecks

from tfbdl import priors


class LaplaceTest(PriorChecks, tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(1e-3, 1.0, 20.0)
    def test_density(self, scale: Any) -> None:
        p = scipy.stats.laplace(0, scale)
        slope = lambda w: -np.sign(w) / scale  # noqa: E731
        self.assert_density(priors.Laplace(scale), p.logpdf, slope, scale * TAILS)

    @parameterized.parameters(0.1, 1.0, 2.0)
    def test_expectation(self, scale: Any) -> None:
        self.assert_expectation(priors.Laplace(scale), scipy.stats.laplace(0, scale).logpdf)
        self.assert_gradient_of_kl(priors.Laplace(scale))

    @parameterized.parameters(1e-8, 1e-3, 1e3)
    def test_gradient_of_narrow_and_wide_posteriors(self, sigma: Any) -> None:
        """dE|w| / dmu = erf(mu / (sigma sqrt 2)), dE|w| / dsigma = sqrt(2 / pi) exp(-z^2)."""
        mu = np.array([-3.0, 0.0, 1e-4, 2.0])
        x, s = tf.constant(mu, tf.float32), tf.fill([4], tf.constant(sigma))
        with tf.GradientTape() as tape:
            tape.watch([x, s])
            expected = tf.reduce_sum(priors.Laplace(0.5).expected_log_prob(x, s))
        z = mu / (math.sqrt(2) * sigma)
        by_hand = (-2 * scipy.special.erf(z), -2 * math.sqrt(2 / math.pi) * np.exp(-(z**2)))
        self.assertAllClose(tape.gradient(expected, (x, s)), by_hand, 1e-5, 1e-6)

    def test_law(self) -> None:
        self.assert_law(priors.Laplace(2.0), scipy.stats.laplace(0, 2).cdf)

    def test_scale_is_learned(self) -> None:
        """For a fixed q the optimum is E|w|, for known weights mean |w|."""
        prior = priors.Laplace(3.0, trainable=True, dtype="float64")
        mu, sigma = tf.constant(MU), tf.constant(SIGMA)
        self.learn_scales(prior, lambda: prior.kl_from_normal(mu, sigma))
        folded = scipy.stats.foldnorm.mean(np.abs(MU) / SIGMA, scale=SIGMA)
        self.assertAllClose(prior.scale, np.mean(folded), 1e-4)
        self.learn_scales(prior, lambda: -tf.reduce_sum(prior.log_prob(mu)))
        self.assertAllClose(prior.scale, np.mean(np.abs(MU)), 1e-4)

    def test_config(self) -> None:
        prior = priors.Laplace(0.3, trainable=True)
        again = priors.get(keras.saving.serialize_keras_object(prior))
        self.assertEqual(again.get_config(), prior.get_config())
        self.assertLen(again.trainable_variables, 1)

    @parameterized.parameters(0, -1.0, math.inf, math.nan, None, "fan_in")
    def test_scale_is_checked(self, scale: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^scale=.* must be a positive number"):
            priors.Laplace(scale)


if __name__ == "__main__":
    tf.test.main()
