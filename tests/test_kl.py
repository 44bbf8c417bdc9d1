"""KL(q || p): the closed form where there is one, else an unbiased estimate."""

import itertools
from typing import Any

import numpy as np
import scipy.integrate
import scipy.stats
import tensorflow as tf

from tfbdl import kl, priors, random

SAMPLES = 50_000


class Laplace(priors.Prior):
    """A prior without a closed form."""

    def log_prob(self, w: Any) -> Any:
        return -tf.abs(w) - np.log(2.0)

    def sample(self, key: Any, shape: Any) -> None:
        raise NotImplementedError


class Student(priors.Prior):
    def log_prob(self, w: Any) -> Any:
        return -2.0 * tf.math.log1p(tf.square(w) / 3.0) + scipy.stats.t.logpdf(0, 3)

    def sample(self, key: Any, shape: Any) -> None:
        raise NotImplementedError


def estimate(mu: Any, sigma: Any, prior: Any, w: Any) -> Any:
    log_q = kl.normal_log_prob((w - mu) / sigma, tf.math.log(sigma))
    return kl.sampled_kl(w, log_q, prior)


class KLTest(tf.test.TestCase):
    MU, SIGMA = np.array([0.7, -0.2]), np.array([0.4, 1.3])

    def integral(self, logpdf: Any, mu: Any, sigma: Any) -> Any:
        q = scipy.stats.norm(mu, sigma)
        cuts = sorted([mu - 10 * sigma, 0.0, mu, mu + 10 * sigma])
        return sum(
            scipy.integrate.quad(lambda w: q.pdf(w) * (q.logpdf(w) - logpdf(w)), a, b)[0]
            for a, b in itertools.pairwise(cuts)
        )

    def estimates(self, prior: Any) -> Any:
        """`SAMPLES` one-sample estimates, and their gradients in mu and sigma."""
        mu, sigma = (
            tf.tile(tf.constant(v, tf.float64)[None], [SAMPLES, 1]) for v in (self.MU, self.SIGMA)
        )
        with tf.GradientTape() as tape:
            tape.watch([mu, sigma])
            w = mu + sigma * random.normal(tf.constant(123, tf.int64), mu.shape, tf.float64)
            estimates = tf.vectorized_map(
                lambda a: estimate(a[0], a[1], prior, a[2]), (mu, sigma, w)
            )
        return estimates, *tape.gradient(estimates, (mu, sigma))

    def assert_mean(self, samples: Any, expected: Any) -> None:
        samples = np.asarray(samples)
        error = samples.std(axis=0) / np.sqrt(len(samples))
        self.assertTrue(
            np.all(np.abs(samples.mean(axis=0) - expected) < 5 * error + 1e-9),
            (samples.mean(axis=0), expected, error),
        )

    def test_closed_form(self) -> None:
        prior = priors.Normal(2.0)
        mu, sigma = tf.constant(self.MU), tf.constant(self.SIGMA)
        got = prior.kl_from_normal(mu, sigma)
        logpdf = scipy.stats.norm(0, 2).logpdf
        expected = sum(map(self.integral, [logpdf] * 2, self.MU, self.SIGMA))
        self.assertAllClose(got, expected, 1e-7)

    def test_estimate_is_unbiased_and_so_is_its_gradient(self) -> None:
        for prior, logpdf in (
            (Laplace(), scipy.stats.laplace.logpdf),
            (Student(), scipy.stats.t(3).logpdf),
        ):
            estimates, d_mu, d_sigma = self.estimates(prior)
            expected = list(map(self.integral, [logpdf] * 2, self.MU, self.SIGMA))
            self.assert_mean(estimates, sum(expected))
            h = 1e-4
            for samples, step in ((d_mu, (h, 0)), (d_sigma, (0, h))):
                slopes = [
                    (
                        self.integral(logpdf, m + step[0], s + step[1])
                        - self.integral(logpdf, m - step[0], s - step[1])
                    )
                    / (2 * h)
                    for m, s in zip(self.MU, self.SIGMA, strict=True)
                ]
                self.assert_mean(samples, slopes)

    def test_estimate_of_a_normal_is_right_sample_by_sample(self) -> None:
        """log q(w) - log p(w) by SciPy, at the given w."""

        w = np.array([0.1, -2.0])
        mu, sigma = tf.constant(self.MU), tf.constant(self.SIGMA)
        got = estimate(mu, sigma, priors.Normal(0.5), tf.constant(w))
        q, p = scipy.stats.norm(self.MU, self.SIGMA), scipy.stats.norm(0, 0.5)
        self.assertAllClose(got, np.sum(q.logpdf(w) - p.logpdf(w)), 1e-12)


if __name__ == "__main__":
    tf.test.main()
