"""Posteriors through inverse distribution functions: the standard members, and flipout."""

import math
from typing import Any
from unittest import mock

import numpy as np
import scipy.integrate
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized
from posterior_families import KEY, law, make

from tfbdl import posteriors, priors, random
from tfbdl.layers import BayesDense

STANDARD = {
    "logistic": scipy.stats.logistic(0, np.sqrt(3) / np.pi),
    "laplace": scipy.stats.laplace(0, np.sqrt(0.5)),
}
NUM = 20_000
X = np.array([[0.5, -1.0, 2.0], [0.0, 0.0, 0.0], [1.0, 0.3, -0.2]])


class NormalByQuantile(posteriors.InverseCDF):
    standard_entropy = 0.5 * math.log(2 * math.pi * math.e)

    def quantile(self, below: Any, above: Any) -> Any:
        return math.sqrt(2.0) * tf.math.erfinv(below - above)

    def standard_log_prob(self, z: Any) -> Any:
        return -0.5 * tf.square(z) - 0.5 * math.log(2 * math.pi)


class StandardMemberTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*STANDARD)
    def test_quantile_and_density(self, family: Any) -> None:
        q, p = posteriors.get(family), STANDARD[family]
        u = np.concatenate([2.0 ** -np.arange(8, 34), np.linspace(0, 1, 101)[1:-1] + 1e-9])
        for dtype, digits in (("float64", 1e-12), ("float32", 5e-7)):
            below, above = tf.constant(u, dtype), tf.constant(1 - u, dtype)
            self.assertAllClose(q.quantile(below, above), p.ppf(u), digits, digits)
            self.assertAllClose(q.quantile(above, below), p.isf(u), digits, digits)
        z = np.concatenate([np.linspace(-8, 8, 100), [-200.0, 200.0]])
        self.assertAllClose(q.standard_log_prob(tf.constant(z)), p.logpdf(z), 1e-12)

    @parameterized.parameters(*STANDARD)
    def test_mean_variance_and_entropy(self, family: Any) -> None:
        """The integrals over u, on either side of 1/2."""
        q = posteriors.get(family)

        def integral(f: Any) -> Any:
            def integrand(u: Any) -> float:
                below, above = tf.constant(u, tf.float64), tf.constant(1 - u, tf.float64)
                return float(f(q.quantile(below, above)))

            halves = ((1e-300, 0.5 - 1e-12), (0.5 + 1e-12, 1 - 1e-15))
            return sum(scipy.integrate.quad(integrand, *ends, limit=200)[0] for ends in halves)

        self.assertAllClose(integral(lambda z: z), 0.0, atol=1e-6)
        self.assertAllClose(integral(tf.square), 1.0, atol=1e-6)
        entropy = integral(lambda z: -q.standard_log_prob(z))
        self.assertAllClose(q.standard_entropy, entropy, atol=1e-6)

    @parameterized.parameters(*STANDARD)
    def test_both_tails_are_sampled(self, family: Any) -> None:
        """To the ends of 32 random bits."""
        q = make(family, dtype="float32")
        ends = np.full(q.mu.shape, 2**32 - 1, np.uint32)
        ends[0] = 0
        with mock.patch.object(random, "bits", return_value=tf.constant(ends)):
            z = (q.sample(KEY) - q.mean) / q.stddev
        expected = STANDARD[family].isf(2.0**-33)
        self.assertAllClose(z, np.where(ends == 0, -expected, expected), 1e-5)

    @parameterized.parameters(*STANDARD)
    def test_gradient_of_a_sample(self, family: Any) -> None:
        """dw / dmu = 1 and dw / dsigma = Q(u), the deviation in units of sigma."""
        q = make(family)
        with tf.GradientTape() as tape:
            w = q.sample(KEY)
        z = (w - q.mean) / q.stddev
        gradients = tape.gradient(w, (q.mu.value, q.rho.value))
        self.assertAllClose(gradients[0], np.ones((3, 4)), 1e-12)
        self.assertAllClose(gradients[1], z * tf.sigmoid(q.rho.value), 1e-10)

    def test_a_family_of_ones_own(self) -> None:
        """The normal in five lines is the mean-field normal: noise, density and KL."""
        reference = make("mean_field")
        q = NormalByQuantile().create(
            reference, "w", (3, 4), reference.initializer, priors.Normal(1.0)
        )
        q.mu.assign(reference.mu)
        q.rho.assign(reference.rho)
        w = reference.sample(KEY)
        self.assertAllClose(q.sample(KEY), w, 1e-12)
        self.assertAllClose(q.log_prob(w), reference.log_prob(w), 1e-12)
        self.assertAllClose(q.kl(KEY), reference.kl(KEY), 1e-12)
        with self.assertRaisesRegex(ValueError, "^estimator='flipout' .*NormalByQuantile"):
            BayesDense(3, num_data=10, posterior=NormalByQuantile(), estimator="flipout")

    @parameterized.parameters(*STANDARD)
    def test_local_reparameterization_is_refused(self, family: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^estimator='local_reparameterization' needs"):
            BayesDense(3, num_data=10, posterior=family, estimator="local_reparameterization")


class FlipoutTest(tf.test.TestCase, parameterized.TestCase):
    def outputs(self, family: Any) -> Any:
        """Outputs of `NUM` training steps, and of as many layers by SciPy: (NUM, rows, units)."""
        layer = BayesDense(2, num_data=10, posterior=family, estimator="flipout", seed=1)
        layer.build((None, 3))
        rng = np.random.default_rng(2)
        for v in layer.trainable_variables:
            v.assign(v + rng.normal(0, 0.5, v.shape))
        x = tf.constant(X, tf.float32)

        @tf.function(jit_compile=True)
        def steps() -> Any:
            return tf.map_fn(
                lambda _: layer(x, training=True), tf.range(NUM), fn_output_signature=tf.float32
            )

        w, b = (
            np.stack([m.rvs(NUM, random_state=rng) for m in law(q).marginals], axis=1)
            for q in (layer.kernel, layer.bias)
        )
        return steps().numpy().astype(np.float64), X @ w.reshape(NUM, 3, 2) + b[:, None]

    @parameterized.parameters(*STANDARD)
    def test_each_example_keeps_its_distribution(self, family: Any) -> None:
        """Each output, and sums over the outputs of an example, which signs could couple."""
        got, expected = self.outputs(family)
        for n in range(len(X)):
            for c in ((1, 0), (0, 1), (1, 1), (1, -1)):
                result = scipy.stats.ks_2samp(got[:, n] @ c, expected[:, n] @ c, method="asymp")
                self.assertGreater(result.pvalue, 1e-5, (n, c))

    @parameterized.parameters(*STANDARD)
    def test_examples_are_uncorrelated(self, family: Any) -> None:
        got, expected = self.outputs(family)
        for y, correlated in ((got, False), (expected, True)):
            deviation = y - y.mean(axis=0)
            product = deviation[:, 0, 0] * deviation[:, 2, 0]
            error = product.std() / np.sqrt(NUM)
            self.assertEqual(abs(product.mean()) > 5 * error, correlated)


if __name__ == "__main__":
    tf.test.main()
