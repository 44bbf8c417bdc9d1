"""Both approximations of variational dropout against the exact KL, up to its constant."""

from typing import Any

import keras
import numpy as np
import scipy.integrate
import scipy.special
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized

from tfbdl import priors
from tfbdl.priors import log_uniform

LOG_ALPHA = np.linspace(-8.0, 8.0, 65)
LIMIT = 0.5 * np.log(2 * np.pi * np.e) + 0.5 * (np.euler_gamma + np.log(2))
"""What the KL with p(w) = 1 / |w| tends to, with the sign changed, as alpha grows."""


def exact(log_alpha: Any) -> Any:
    """KL(N(mu, alpha mu^2) || 1 / |w|) + LIMIT, so that it tends to 0 as alpha grows.

    E log q is the normal's negative entropy. For w = mu (1 + sqrt(alpha) e),
    E log |w / mu| = 1/2 log alpha + 1/2 E log X with X noncentral chi-square, 1 degree of freedom,
    noncentrality 1 / alpha: a Poisson mixture of the digamma function.
    """
    half = 0.5 * np.exp(-log_alpha)
    j = np.arange(int(half + 40 * np.sqrt(half + 1)) + 60)
    log_x = np.log(2) + np.sum(scipy.stats.poisson.pmf(j, half) * scipy.special.digamma(0.5 + j))
    log_w = 0.5 * log_alpha + 0.5 * log_x
    return -0.5 * np.log(2 * np.pi * np.e) - 0.5 * log_alpha + log_w + LIMIT


EXACT = np.array([exact(a) for a in LOG_ALPHA])


class ReferenceTest(tf.test.TestCase, parameterized.TestCase):
    """The reference itself, against integration and Monte Carlo."""

    @parameterized.product(log_alpha=(-8.0, -2.0, 0.0, 3.0), mu=(-0.3, 2.0))
    def test_integral(self, log_alpha: Any, mu: Any) -> None:
        q = scipy.stats.norm(mu, np.exp(0.5 * log_alpha) * abs(mu))

        def integrand(w: Any) -> Any:
            return q.pdf(w) * (q.logpdf(w) + np.log(np.abs(w)))

        low, high = q.mean() - 12 * q.std(), q.mean() + 12 * q.std()
        cuts = [low, *([0.0] if low < 0 < high else []), mu, high]
        kl = sum(
            scipy.integrate.quad(integrand, a, b, limit=200)[0]
            for a, b in zip(sorted(cuts), sorted(cuts)[1:], strict=False)
        )
        self.assertAllClose(exact(log_alpha), kl + LIMIT, 1e-6, 1e-6)

    def test_monte_carlo(self) -> None:
        e = np.random.default_rng(0).normal(size=400_000)
        sigma = np.exp(0.5 * -1.0)
        terms = scipy.stats.norm.logpdf(e) - np.log(sigma) + np.log(np.abs(1 + sigma * e)) + LIMIT
        error = terms.std() / np.sqrt(len(e))
        self.assertLess(abs(terms.mean() - exact(-1.0)), 5 * error)


class ApproximationTest(tf.test.TestCase):
    def test_molchanov(self) -> None:
        """Within 0.01 nat of the exact KL for every alpha; the KL itself reaches 4.6."""
        got = log_uniform.molchanov(tf.constant(LOG_ALPHA))
        self.assertLess(np.abs(got - EXACT).max(), 0.01)

    def test_molchanov_tends_to_zero_and_falls(self) -> None:
        got = log_uniform.molchanov(tf.constant(np.linspace(-8, 30, 200))).numpy()
        self.assertLess(abs(got[-1]), 1e-12)
        self.assertTrue(np.all(np.diff(got) < 0))

    def test_molchanov_is_finite_far_out(self) -> None:
        a = tf.constant([-1e4, -200.0, 200.0, 1e4])
        with tf.GradientTape() as tape:
            tape.watch(a)
            kl = log_uniform.molchanov(a)
        self.assertAllClose(kl, [5000.0 + 0.63576, 100.0 + 0.63576, 0.0, 0.0], 1e-5)
        self.assertAllClose(tape.gradient(kl, a), [-0.5, -0.5, 0.0, 0.0])

    def test_kingma(self) -> None:
        """Differences between alphas up to 1: within 0.041 nat of the exact ones."""
        small = LOG_ALPHA <= 0
        got = log_uniform.kingma(tf.constant(LOG_ALPHA[small])).numpy()
        error = (got - got[0]) - (EXACT[small] - EXACT[0])
        self.assertLess(np.abs(error).max(), 0.041)

    def test_kingma_beyond_one_stays_at_one(self) -> None:
        a = tf.constant([0.0, 0.5, 8.0])
        self.assertAllClose(log_uniform.kingma(a), tf.fill([3], log_uniform.kingma(a[:1])[0]))

    def test_approximations_agree_with_each_other(self) -> None:
        small = tf.constant(LOG_ALPHA[LOG_ALPHA <= 0])
        gap = (log_uniform.kingma(small) - log_uniform.molchanov(small)).numpy()
        self.assertLess(np.ptp(gap), 0.05)


class LogAlphaTest(tf.test.TestCase):
    def test_value(self) -> None:
        mu, sigma = np.array([0.3, -0.3, 2.0, 1.0]), np.array([0.1, 0.1, 5.0, 1.0])
        got = log_uniform.log_alpha(tf.constant(mu), tf.constant(sigma))
        self.assertAllClose(got, np.log(sigma**2 / mu**2), 1e-9)

    def test_clipped_and_finite(self) -> None:
        mu, sigma = tf.constant([0.0, 1.0, 0.0, 1e-30]), tf.constant([1.0, 0.0, 0.0, 1.0])
        with tf.GradientTape() as tape:
            tape.watch([mu, sigma])
            a = log_uniform.log_alpha(mu, sigma)
        self.assertAllEqual(tf.gather(a, [0, 1, 3]), [8.0, -8.0, 8.0])
        for gradient in tape.gradient(a, (mu, sigma)):
            self.assertTrue(np.all(np.isfinite(gradient)))


class LogUniformTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters("kingma", "molchanov")
    def test_kl_sums_over_the_tensor(self, approximation: Any) -> None:
        rng = np.random.default_rng(0)
        mu, sigma = rng.normal(size=(3, 4)), np.exp(rng.normal(-2, 1, (3, 4)))
        log_alpha = np.clip(np.log(sigma**2 / mu**2), -8, 8)
        each = getattr(log_uniform, approximation)(tf.constant(log_alpha)).numpy()
        prior = priors.LogUniform(approximation)
        got = prior.kl_from_normal(tf.constant(mu), tf.constant(sigma))
        self.assertAllClose(got, each.sum(), 1e-8)
        self.assertAllClose(prior.kl_from_log_alpha(tf.constant(log_alpha)), each.sum(), 1e-12)

    def test_log_prob(self) -> None:
        w = np.array([-2.0, 0.1, 3.0])
        got = priors.LogUniform().log_prob(tf.constant(w))
        self.assertAllClose(np.exp(got), 1 / np.abs(w), 1e-12)

    def test_cannot_be_drawn_from(self) -> None:
        with self.assertRaisesRegex(ValueError, "improper"):
            priors.LogUniform().sample(tf.constant(0, tf.int64), (2,))

    def test_config(self) -> None:
        config = keras.saving.serialize_keras_object(priors.LogUniform("kingma"))
        self.assertEqual(priors.get(config).approximation, "kingma")

    def test_unknown_approximation(self) -> None:
        with self.assertRaisesRegex(ValueError, "^approximation='laplace' .*kingma, molchanov$"):
            priors.LogUniform("laplace")


if __name__ == "__main__":
    tf.test.main()
