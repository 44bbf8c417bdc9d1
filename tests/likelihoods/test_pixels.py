"""The likelihoods of pixels against closed forms, integration, and TensorFlow Probability."""

from typing import Any
from unittest import mock

import numpy as np
import scipy.special
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
from absl.testing import parameterized

from tfbdl import likelihoods, random

tfd = tfp.distributions
KEY = tf.constant(123, tf.int64)
NEAR_ZERO = (1e-6, 1e-3, 0.01, 0.05, 0.0999, 0.1, 0.1001, 0.15, 0.2)
LOGITS = np.array(sorted({s * h for s in (-1, 1) for h in (0, *NEAR_ZERO, 0.5, 3, 10, 30, 80)}))
X = np.array([0.0, 1e-3, 0.3, 0.5, 0.9, 1.0])[:, None]
NUM = 200_000
NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)


def log_normaliser(h: Any) -> Any:
    """log((exp(h) - 1) / h), with the digits that expm1 keeps."""
    h = np.asarray(h, np.float64)
    safe = np.where(h == 0, 1.0, h)
    return np.where(h == 0, 0.0, np.log(np.expm1(np.minimum(safe, 700)) / safe))


def mean(h: Any) -> Any:
    """E[x] by Gauss-Legendre quadrature of x exp(h x), weighed at the larger end."""
    x = 0.5 * (NODES + 1)
    density = np.exp(h[:, None] * x - np.maximum(h, 0)[:, None])
    return density @ (WEIGHTS * x) / (density @ WEIGHTS)


class BernoulliTest(tf.test.TestCase, parameterized.TestCase):
    likelihood = likelihoods.Bernoulli()

    def test_log_prob(self) -> None:
        x = np.array([[0.0], [1.0]])
        got = self.likelihood.log_prob_of_elements(
            tf.constant(x + 0 * LOGITS), tf.constant(LOGITS + 0 * x)
        )
        expected = -np.where(x == 1, np.logaddexp(0, -LOGITS), np.logaddexp(0, LOGITS))
        self.assertAllClose(got, expected, 1e-12, 1e-12)
        p = scipy.special.expit(0.7)
        grey = self.likelihood.log_prob_of_elements(tf.constant(0.3), tf.constant(0.7))
        self.assertAllClose(grey, 0.3 * np.log(p) + 0.7 * np.log(1 - p), 1e-6)

    def test_saturated_logits(self) -> None:
        logits = tf.constant([-1e4, -200.0, 200.0, 1e4])
        for x in (0.0, 0.5, 1.0):
            with tf.GradientTape() as tape:
                tape.watch(logits)
                log_prob = self.likelihood.log_prob_of_elements(tf.fill([4], x), logits)
            expected = np.where(logits < 0, x, x - 1) * np.asarray(logits)
            self.assertAllClose(log_prob, expected)
            self.assertAllClose(tape.gradient(log_prob, logits), x - (np.asarray(logits) > 0))

    def test_mean_and_sample(self) -> None:
        logits = tf.constant([-20.0, -2.0, 0.0, 0.1, 3.0, 20.0])
        p = scipy.special.expit(np.asarray(logits, np.float64))
        self.assertAllClose(self.likelihood.mean(logits), p)
        x = self.likelihood.sample(KEY, tf.tile(logits[None], [NUM, 1])).numpy()
        self.assertAllEqual(np.unique(x), [0.0, 1.0])
        error = np.sqrt(p * (1 - p) / NUM) + 1e-6
        self.assertLess(np.max(np.abs(x.mean(axis=0, dtype=np.float64) - p) / error), 5)


class ContinuousBernoulliTest(tf.test.TestCase, parameterized.TestCase):
    likelihood = likelihoods.ContinuousBernoulli()

    @parameterized.parameters(("float64", 1e-9), ("float32", 2e-6))
    def test_log_prob(self, dtype: Any, tolerance: Any) -> None:
        got = self.likelihood.log_prob_of_elements(
            tf.constant(X + 0 * LOGITS, dtype), tf.constant(LOGITS + 0 * X, dtype)
        )
        expected = X * LOGITS - log_normaliser(LOGITS)
        self.assertAllClose(got, expected, tolerance, tolerance)
        theirs = tfd.ContinuousBernoulli(logits=tf.constant(LOGITS)).log_prob(X)
        self.assertAllClose(got, theirs, max(tolerance, 1e-6), max(tolerance, 1e-6))

    @parameterized.parameters(-80.0, -3.0, -0.0999, 1e-6, 0.05, 0.1001, 0.2, 10.0, 80.0)
    def test_density_integrates_to_one(self, logit: Any) -> None:
        x = tf.constant(0.5 * (NODES + 1))
        density = tf.exp(
            self.likelihood.log_prob_of_elements(x, tf.fill(x.shape, tf.constant(logit, x.dtype)))
        )
        self.assertAllClose(np.sum(density * WEIGHTS) / 2, 1.0, 1e-9)

    @parameterized.parameters(("float64", 1e-9), ("float32", 5e-6))
    def test_mean(self, dtype: Any, tolerance: Any) -> None:
        got = self.likelihood.mean(tf.constant(LOGITS, dtype))
        self.assertAllClose(got, mean(LOGITS), tolerance, tolerance)
        theirs = tfd.ContinuousBernoulli(logits=tf.constant(LOGITS)).mean()
        self.assertAllClose(got, theirs, 1e-5, 1e-5)

    @parameterized.parameters("float32", "float64")
    def test_gradient_of_log_prob(self, dtype: Any) -> None:
        """x - E[x], by quadrature; 0 and both sides of the seam included."""
        logits = tf.constant(LOGITS, dtype)
        with tf.GradientTape() as tape:
            tape.watch(logits)
            x = tf.fill(logits.shape, tf.constant(0.3, dtype))
            log_prob = self.likelihood.log_prob_of_elements(x, logits)
        self.assertAllClose(tape.gradient(log_prob, logits), 0.3 - mean(LOGITS), 1e-5, 1e-5)

    def test_gradient_of_mean(self) -> None:
        """The variance, 1 / h^2 - 1 / (4 sinh(h / 2)^2), and 1/12 at 0."""
        logits = tf.constant(LOGITS, tf.float32)
        with tf.GradientTape() as tape:
            tape.watch(logits)
            mean_ = self.likelihood.mean(logits)
        h = np.where(np.abs(LOGITS) < 1e-2, 1e-2, LOGITS)
        variance = 1 / h**2 - 1 / (4 * np.sinh(h / 2) ** 2)
        self.assertAllClose(tape.gradient(mean_, logits), variance, 1e-3, 1e-4)

    def test_variance_entropy_and_cdf(self) -> None:
        """Quadrature, and the distribution function in closed form."""
        logits = LOGITS[np.abs(LOGITS) > 0.02]
        h, nodes = logits[:, None], 0.5 * (NODES + 1)
        log_p = h * nodes - log_normaliser(h)
        weights = 0.5 * WEIGHTS * np.exp(log_p)
        variance = weights @ nodes**2 - mean(logits) ** 2
        got = self.likelihood.variance(tf.constant(logits))
        self.assertAllClose(got, variance, 1e-5, 1e-9)
        entropy = -np.sum(weights * log_p, axis=-1)
        got = self.likelihood.entropy(tf.constant(logits[:, None]))
        self.assertAllClose(got, entropy, 1e-6, 1e-7)
        got = self.likelihood.cdf(tf.constant(0.3, tf.float64), tf.constant(logits))
        self.assertAllClose(got, np.expm1(logits * 0.3) / np.expm1(logits), 1e-6, 1e-9)

    def test_saturated_logits(self) -> None:
        logits = tf.constant([-1e6, -1e4, -200.0, -100.0, 100.0, 200.0, 1e4, 1e6])
        h = np.asarray(logits, np.float64)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(logits)
            log_prob = self.likelihood.log_prob_of_elements(tf.fill([8], 0.3), logits)
            mean_ = self.likelihood.mean(logits)
        expected = 0.3 * h - np.maximum(h, 0) + np.log(np.abs(h))
        self.assertAllClose(log_prob, expected, 1e-6)
        self.assertAllClose(mean_, (h > 0) - 1 / h, 1e-6)
        self.assertAllClose(tape.gradient(log_prob, logits), 0.3 - ((h > 0) - 1 / h), 1e-5)
        self.assertAllClose(tape.gradient(mean_, logits), 1 / h**2, 1e-4, 1e-6)

    @parameterized.parameters(*LOGITS)
    def test_sample(self, logit: Any) -> None:
        """Kolmogorov-Smirnov against the distribution function (exp(h x) - 1) / (exp(h) - 1)."""
        logits = tf.fill([NUM], tf.constant(logit, tf.float32))
        x = self.likelihood.sample(KEY, logits).numpy().astype(np.float64)
        self.assertAllInRange(x, 0.0, 1.0)

        def cdf(x: Any) -> Any:
            if logit == 0:
                return x
            if logit > 0:
                return np.exp(logit * (x - 1)) * np.expm1(-logit * x) / np.expm1(-logit)
            return np.expm1(logit * x) / np.expm1(logit)

        self.assertGreater(scipy.stats.kstest(x, cdf, method="asymp").pvalue, 1e-5)
        self.assertLess(abs(x.mean() - mean(np.array([logit]))[0]), 5 * x.std() / np.sqrt(NUM))

    @parameterized.parameters(0.1, 0.11, 1.0, 80.0, 1e4)
    def test_extreme_samples_are_pixels(self, logit: Any) -> None:
        """The ends of the uniform, which chance would not meet."""
        u = tf.constant([2.0**-24, 2.0**-23, 0.5, 1 - 2.0**-23, 1 - 2.0**-24])
        for sign in (1.0, -1.0):
            with mock.patch.object(random, "uniform", return_value=u):
                x = self.likelihood.sample(KEY, tf.fill([5], sign * logit))
            self.assertAllInRange(x, 0.0, 1.0)


if __name__ == "__main__":
    tf.test.main()
