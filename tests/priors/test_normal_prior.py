"""The normal prior against SciPy, TensorFlow Probability in float64, and integration."""

import math

import keras
import numpy as np
import scipy.integrate
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
from absl.testing import parameterized

from tfbdl import priors

tfd = tfp.distributions
RNG = np.random.default_rng(0)
MU = RNG.normal(size=(5, 4))
SIGMA = np.exp(RNG.normal(size=(5, 4)))


class NormalTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(0.1, 1.0, 2.0)
    def test_log_prob(self, scale):
        got = priors.Normal(scale).log_prob(tf.constant(MU))
        self.assertAllClose(got, scipy.stats.norm.logpdf(MU, scale=scale), 1e-13, 1e-13)

    @parameterized.parameters(0.1, 1.0, 2.0)
    def test_kl_against_tfp(self, scale):
        q, p = tfd.Normal(tf.constant(MU), SIGMA), tfd.Normal(tf.constant(0.0, tf.float64), scale)
        expected = tf.reduce_sum(tfd.kl_divergence(q, p))
        prior = priors.Normal(scale)
        self.assertAllClose(
            prior.kl_from_normal(tf.constant(MU), tf.constant(SIGMA)), expected, 1e-13
        )
        in_float32 = prior.kl_from_normal(
            tf.constant(MU, tf.float32), tf.constant(SIGMA, tf.float32)
        )
        self.assertAllClose(in_float32, expected, 1e-5)

    def test_gamma_is_a_scale_and_no_variance(self):
        """KL(N(0, 2^2) || p) is 0 for gamma = 2, by integration too."""
        prior = priors.Normal(2)
        zero, two = tf.constant(0.0, tf.float64), tf.constant(2.0, tf.float64)
        self.assertAllClose(prior.kl_from_normal(zero, two), 0.0)
        q = scipy.stats.norm(0.5, 0.3)
        expected, _ = scipy.integrate.quad(
            lambda w: q.pdf(w) * (q.logpdf(w) - scipy.stats.norm.logpdf(w, scale=2)), -4, 5
        )
        got = prior.kl_from_normal(tf.constant(0.5, tf.float64), tf.constant(0.3, tf.float64))
        self.assertAllClose(got, expected, 1e-8)

    def test_kl_is_zero_where_posterior_and_prior_agree(self):
        got = priors.Normal(0.7).kl_from_normal(tf.zeros([1000]), tf.fill([1000], 0.7))
        self.assertAllClose(got, 0.0, atol=1e-4)

    @parameterized.parameters(1e-8, 1e-3, 30.0)
    def test_gradient(self, sigma):
        """By hand: mu / gamma^2, and sigma / gamma^2 - 1 / sigma."""
        mu, sigma, gamma = tf.constant(3.0), tf.constant(sigma), 2.0
        with tf.GradientTape() as tape:
            tape.watch([mu, sigma])
            kl = priors.Normal(gamma).kl_from_normal(mu, sigma)
        by_hand = (mu / gamma**2, sigma / gamma**2 - 1 / sigma)
        self.assertAllClose(tape.gradient(kl, (mu, sigma)), by_hand, 1e-6)

    def test_sample(self):
        key = tf.constant([1, 2, 3])
        w = priors.Normal(2.0).sample(key, (400, 500)).numpy()
        self.assertEqual(w.shape, (400, 500))
        self.assertGreater(
            scipy.stats.kstest(w.ravel(), scipy.stats.norm(0, 2).cdf, method="asymp").pvalue, 1e-5
        )
        self.assertAllEqual(priors.Normal(2.0).sample(key, (400, 500)), w)

    @parameterized.parameters(0, -1.0, math.inf, math.nan, None, "wide", [[1.0]], True)
    def test_scale_is_checked(self, scale):
        with self.assertRaisesRegex(ValueError, "^scale=.*positive.*standard deviation$"):
            priors.Normal(scale)

    @parameterized.parameters(np.float32(0.5), np.float64(0.5), np.int64(2), 3)
    def test_scale_is_any_real_number(self, scale):
        self.assertEqual(priors.Normal(scale).get_config()["scale"], float(scale))


class GetTest(tf.test.TestCase, parameterized.TestCase):
    def test_number_name_object_or_config(self):
        self.assertEqual(priors.get(0.5).scale, 0.5)
        self.assertEqual(priors.get(2).scale, 2.0)
        self.assertEqual(priors.get("normal").scale, 1.0)
        self.assertIsInstance(priors.get("flat"), priors.Flat)
        self.assertIsInstance(priors.get("log_uniform"), priors.LogUniform)
        prior = priors.Normal(3.0)
        self.assertIs(priors.get(prior), prior)
        self.assertEqual(priors.get(keras.saving.serialize_keras_object(prior)).scale, 3.0)

    def test_unknown_name_lists_the_known_ones(self):
        with self.assertRaisesRegex(
            ValueError, "^prior='gauss' .* a scale or one of: ard, .*normal, .*student_t$"
        ):
            priors.get("gauss")

    @parameterized.parameters(0, -1.0, True, float("nan"))
    def test_what_is_no_scale(self, wrong):
        with self.assertRaisesRegex(ValueError, "^scale=.* must be a positive number"):
            priors.get(wrong)

    @parameterized.parameters(None, "", b"normal")
    def test_what_is_no_prior(self, wrong):
        with self.assertRaisesRegex(ValueError, "^prior=.* is unknown; choose a scale or one of"):
            priors.get(wrong)


if __name__ == "__main__":
    tf.test.main()
