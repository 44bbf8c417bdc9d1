"""Multiplicative normal noise: alpha, its bound, and the KL that depends on it alone."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized
from posterior_families import KEY, SHAPE, make

from tfbdl import posteriors, priors
from tfbdl.layers import BayesDense, BayesLSTM


class MultiplicativeTest(tf.test.TestCase, parameterized.TestCase):
    def test_noise_is_in_proportion_to_the_mean(self) -> None:
        q = make("multiplicative", "log_uniform")
        alpha = np.exp(np.minimum(q.raw_log_alpha.numpy(), 0))
        self.assertAllClose(q.stddev**2, alpha * q.mu.numpy() ** 2, 1e-12)

    @parameterized.parameters(0.01, 0.25, 1.0)
    def test_initial_alpha(self, alpha: Any) -> None:
        q = posteriors.MultiplicativeNormal(alpha).create(
            keras.layers.Layer(), "w", SHAPE, keras.initializers.Ones(), priors.LogUniform()
        )
        self.assertAllClose(tf.exp(q.log_alpha), tf.fill(SHAPE, alpha), 1e-5)

    @parameterized.parameters("kingma", "molchanov")
    def test_alpha_never_exceeds_one(self, approximation: Any) -> None:
        q = make("multiplicative", priors.LogUniform(approximation))
        at_one = make("multiplicative", priors.LogUniform(approximation))
        q.raw_log_alpha.assign(tf.fill(SHAPE, tf.constant(5.0, tf.float64)))
        at_one.raw_log_alpha.assign(tf.zeros(SHAPE, tf.float64))
        self.assertAllClose(q.stddev, np.abs(q.mu.numpy()))
        self.assertAllClose(q.kl(KEY), at_one.kl(KEY), 1e-12)

    def test_alpha_comes_back_from_its_bound(self) -> None:
        """A weight whose noise costs likelihood must not be stuck at alpha = 1 for ever."""
        q = make("multiplicative", "log_uniform", dtype="float32")
        q.mu.assign(tf.ones(SHAPE))
        q.raw_log_alpha.assign(tf.fill(SHAPE, 0.5))
        optimizer = keras.optimizers.Adam(0.1)
        for step in range(100):
            with tf.GradientTape() as tape:
                noise = q.sample(tf.constant(step, tf.int64)) - q.mean
                loss = 100.0 * tf.reduce_sum(tf.square(noise))
            gradient = tape.gradient(loss, q.raw_log_alpha.value)
            optimizer.apply([gradient], [q.raw_log_alpha])
        self.assertLess(np.exp(q.log_alpha).max(), 0.5)

    def test_kl_depends_on_alpha_alone(self) -> None:
        """At mu = 0 as well, where a bias starts."""
        prior = priors.LogUniform("kingma")
        q = make("multiplicative", prior)
        expected = prior.kl_from_log_alpha(q.log_alpha)
        self.assertAllClose(q.kl(KEY), expected, 1e-12)
        q.mu.assign(tf.zeros(SHAPE))
        self.assertAllClose(q.kl(KEY), expected, 1e-12)

    @parameterized.parameters(0.0, -0.1, 1.01, float("nan"))
    def test_initial_alpha_is_checked(self, alpha: Any) -> None:
        with self.assertRaisesRegex(ValueError, r"^initial_alpha=.* \(0, 1\]$"):
            posteriors.MultiplicativeNormal(alpha)

    def test_prior_is_checked(self) -> None:
        with self.assertRaisesRegex(ValueError, "^prior=Normal .*'log_uniform'$"):
            posteriors.MultiplicativeNormal().check_prior(priors.Normal())

    @parameterized.parameters("posterior", "bias_posterior", "recurrent_posterior")
    def test_sampled_kl_is_refused(self, argument: Any) -> None:
        """It is NaN where mu = 0, as biases start."""
        prior = argument.replace("posterior", "prior")
        family = {prior: "log_uniform", argument: posteriors.MultiplicativeNormal()}
        kind = BayesLSTM if argument == "recurrent_posterior" else BayesDense
        with self.assertRaisesRegex(ValueError, "^kl='sample' has no gradient .*; use 'auto'$"):
            kind(3, num_data=10, kl="sample", **family)


if __name__ == "__main__":
    tf.test.main()
