"""The normal prior against SciPy, TensorFlow Probability in float64, and integration."""

import math
from typing import Any

import keras
import numpy as np
import scipy.integrate
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
from absl.testing import parameterized
from prior_checks import MU as MEANS
from prior_checks import SIGMA as STDDEVS
from prior_checks import TAILS, PriorChecks

from tfbdl import priors
from tfbdl.layers import BayesDense

tfd = tfp.distributions
RNG = np.random.default_rng(0)
MU = RNG.normal(size=(5, 4))
SIGMA = np.exp(RNG.normal(size=(5, 4)))


class NormalTest(PriorChecks, tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(1e-3, 1.0, 20.0)
    def test_density(self, scale: Any) -> None:
        p = scipy.stats.norm(0, scale)
        self.assert_density(priors.Normal(scale), p.logpdf, lambda w: -w / scale**2, scale * TAILS)

    @parameterized.parameters(0.1, 1.0, 2.0)
    def test_expectation(self, scale: Any) -> None:
        self.assert_expectation(priors.Normal(scale), scipy.stats.norm(0, scale).logpdf)
        self.assert_gradient_of_kl(priors.Normal(scale))

    @parameterized.parameters(0.1, 1.0, 2.0)
    def test_kl_against_tfp(self, scale: Any) -> None:
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

    def test_gamma_is_a_scale_and_no_variance(self) -> None:
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

    def test_kl_is_zero_where_posterior_and_prior_agree(self) -> None:
        got = priors.Normal(0.7).kl_from_normal(tf.zeros([1000]), tf.fill([1000], 0.7))
        self.assertAllClose(got, 0.0, atol=1e-4)

    @parameterized.parameters(1e-8, 1e-3, 30.0)
    def test_gradient(self, sigma: Any) -> None:
        """mu / gamma^2, and sigma / gamma^2 - 1 / sigma, by hand."""
        mu, sigma, gamma = tf.constant(3.0), tf.constant(sigma), 2.0
        with tf.GradientTape() as tape:
            tape.watch([mu, sigma])
            kl = priors.Normal(gamma).kl_from_normal(mu, sigma)
        by_hand = (mu / gamma**2, sigma / gamma**2 - 1 / sigma)
        self.assertAllClose(tape.gradient(kl, (mu, sigma)), by_hand, 1e-6)

    def test_law(self) -> None:
        self.assert_law(priors.Normal(2.0), scipy.stats.norm(0, 2).cdf)

    @parameterized.parameters(0, -1.0, math.inf, math.nan, None, "wide", [[1.0]], True)
    def test_scale_is_checked(self, scale: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^scale=.*positive.*standard deviation$"):
            priors.Normal(scale)

    @parameterized.parameters(np.float32(0.5), np.float64(0.5), np.int64(2), 3)
    def test_scale_is_any_real_number(self, scale: Any) -> None:
        self.assertEqual(priors.Normal(scale).get_config()["scale"], float(scale))


class FanInTest(PriorChecks, tf.test.TestCase, parameterized.TestCase):
    """scale="fan_in" is sigma / sqrt(H), H the inputs that one unit adds up."""

    @parameterized.parameters(
        ((50, 4), 50), ((3, 3, 5, 7), 45), ((4, 5, 2), 20), ((6,), 1), ((1, 8), 1)
    )
    def test_is_a_normal_of_that_scale(self, shape: Any, fan_in: Any) -> None:
        prior, p = priors.Normal("fan_in", sigma=1.5), scipy.stats.norm(0, 1.5 / np.sqrt(fan_in))
        rng = np.random.default_rng(0)
        mu, sigma = rng.normal(size=shape), np.exp(rng.normal(-1, 1, shape))
        self.assertAllClose(prior.log_prob(tf.constant(mu)), p.logpdf(mu), 1e-12)
        expected = priors.Normal(p.std()).kl_from_normal(tf.constant(mu), tf.constant(sigma))
        got = prior.kl_from_normal(tf.constant(mu), tf.constant(sigma))
        self.assertAllClose(got, expected, 1e-12)

    def test_law(self) -> None:
        self.assert_law(priors.Normal("fan_in", sigma=3.0), scipy.stats.norm(0, 0.3).cdf, (100, 50))

    def test_layers_of_any_width_have_outputs_of_one_spread(self) -> None:
        """What it is for (Neal 1995): Var[x W + b] is 2 at |x|^2 = d, with bias."""
        for d in (4, 400):
            layer = BayesDense(3000, num_data=1, prior="normal", posterior="prior", seed=1)
            layer.prior = layer.bias_prior = priors.Normal("fan_in")
            y = layer(tf.ones([1, d]), training=True)
            self.assert_mean(np.square(y[0]), 2.0)

    def test_config(self) -> None:
        prior = priors.Normal("fan_in", sigma=0.3)
        config = keras.saving.serialize_keras_object(prior)
        self.assertEqual(config["config"]["scale"], "fan_in")
        self.assertEqual(priors.get(config).get_config(), prior.get_config())

    def test_sigma_is_checked(self) -> None:
        with self.assertRaisesRegex(ValueError, "^sigma=-1.0 must be a positive number"):
            priors.Normal("fan_in", sigma=-1.0)


class TrainableTest(PriorChecks, tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(0.1, 1.0, 30.0)
    def test_optimum(self, start: Any) -> None:
        """For a fixed q the bound is highest at sqrt(mean(mu^2 + sigma^2))."""
        prior = priors.Normal(start, trainable=True, dtype="float64")
        mu, sigma = tf.constant(MEANS), tf.constant(STDDEVS)
        self.learn_scales(prior, lambda: prior.kl_from_normal(mu, sigma))
        self.assertAllClose(prior.scale, np.sqrt(np.mean(MEANS**2 + STDDEVS**2)), 1e-4)

    def test_optimum_of_fan_in(self) -> None:
        prior = priors.Normal("fan_in", trainable=True, dtype="float64")
        mu, sigma = (tf.constant(np.tile(a[:, np.newaxis], 3)) for a in (MEANS, STDDEVS))
        self.learn_scales(prior, lambda: prior.kl_from_normal(mu, sigma))
        rms = np.sqrt(np.mean(MEANS**2 + STDDEVS**2))
        self.assertAllClose(prior.scale, rms * np.sqrt(len(MEANS)), 1e-4)

    @parameterized.parameters(("float32", 3e-7), ("float64", 1e-15))
    def test_begins_at_the_scale_given(self, dtype: str, digits: float) -> None:
        prior = priors.Normal(0.05, trainable=True, dtype=dtype)
        w = tf.constant([0.1, -0.02], tf.float64)
        expected = scipy.stats.norm(0, 0.05).logpdf(w)
        self.assertAllClose(
            prior.log_prob(tf.cast(w, dtype)), expected, rtol=10 * digits, atol=10 * digits
        )

    def test_recovers_the_scale_of_known_weights(self) -> None:
        w = tf.constant(np.random.default_rng(0).normal(0, 0.3, 10_000))
        prior = priors.Normal(trainable=True, dtype="float64")
        self.learn_scales(prior, lambda: -tf.reduce_sum(prior.log_prob(w)))
        self.assertLess(abs(np.log(prior.scale / 0.3)), 4 / np.sqrt(2 * 10_000))

    def test_in_training(self) -> None:
        """`fit` of a layer whose weights are frozen: one scale for kernel and bias."""
        prior = priors.Normal(trainable=True)
        layer = BayesDense(4, num_data=10, prior=prior)
        model = keras.Sequential([keras.Input((3,)), layer])
        for q in (layer.kernel, layer.bias):
            q.mu.trainable = q.rho.trainable = False
        model.compile(keras.optimizers.SGD(0.1), lambda y, f: 0.0 * f)
        x = np.ones((10, 3), "float32")
        model.fit(x, x[:, :1], epochs=60, batch_size=10, verbose=0)
        second_moments = [
            np.ravel(np.square(q.mean) + np.square(q.stddev)) for q in (layer.kernel, layer.bias)
        ]
        expected = np.sqrt(np.mean(np.concatenate(second_moments)))
        self.assertAllClose(prior.scale, expected, 1e-3)
        self.assertAllClose(prior.scale, tf.exp(prior.trainable_variables[0]))

    def test_is_fixed_by_default(self) -> None:
        self.assertEmpty(priors.Normal().variables)
        self.assertLen(priors.Normal(trainable=True).trainable_variables, 1)


class GetTest(tf.test.TestCase, parameterized.TestCase):
    def test_number_name_object_or_config(self) -> None:
        self.assertEqual(priors.get(0.5).scale, 0.5)
        self.assertEqual(priors.get(2).scale, 2.0)
        self.assertEqual(priors.get("normal").scale, 1.0)
        self.assertIsInstance(priors.get("flat"), priors.Flat)
        self.assertIsInstance(priors.get("log_uniform"), priors.LogUniform)
        prior = priors.Normal(3.0)
        self.assertIs(priors.get(prior), prior)
        self.assertEqual(priors.get(keras.saving.serialize_keras_object(prior)).scale, 3.0)

    def test_unknown_name_lists_the_known_ones(self) -> None:
        with self.assertRaisesRegex(
            ValueError, "^prior='gauss' .* a scale or one of: ard, .*normal, .*student_t$"
        ):
            priors.get("gauss")

    @parameterized.parameters(0, -1.0, True, float("nan"))
    def test_what_is_no_scale(self, wrong: Any) -> None:
        with self.assertRaisesRegex(
            ValueError, "^prior=.* must be a positive number: a|^prior=True is unknown"
        ):
            priors.get(wrong)

    @parameterized.parameters(None, "", b"normal")
    def test_what_is_no_prior(self, wrong: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^prior=.* is unknown; choose a scale or one of"):
            priors.get(wrong)


if __name__ == "__main__":
    tf.test.main()
