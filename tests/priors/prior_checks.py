"""What every prior over single weights is held against: SciPy, integration, Monte Carlo."""

import itertools
from typing import Any

import numpy as np
import scipy.integrate
import scipy.optimize
import scipy.stats
import tensorflow as tf

KEY = tf.constant(123, tf.int64)
T = np.concatenate([[1e-3], np.logspace(-2, 2, 41)])
TAILS = np.concatenate([-T[::-1], T])
"""Standardised weights, up to 100 scales on either side."""
MU = np.array([-20.0, -1.3, -0.2, 0.0, 0.4, 2.0, 7.0])
SIGMA = np.array([0.5, 0.01, 1.0, 0.3, 2.5, 0.7, 4.0])
SAMPLES = 100_000


def expectation(f: Any, mu: Any, sigma: Any, kinks: Any = (0.0,)) -> Any:
    """E[f(w)] under N(mu, sigma^2), by adaptive integration between the `kinks` of f."""
    ends = mu - 13 * sigma, mu + 13 * sigma
    cuts = sorted({*ends, mu, *(k for k in kinks if ends[0] < k < ends[1])})
    density = scipy.stats.norm(mu, sigma).pdf

    def part(a: Any, b: Any) -> Any:
        integral = scipy.integrate.quad(
            lambda w: density(w) * f(w), a, b, epsabs=1e-13, epsrel=1e-11, limit=500
        )
        return integral[0]

    return sum(itertools.starmap(part, itertools.pairwise(cuts)))


class PriorChecks:
    """Assertions for a `tf.test.TestCase`."""

    def assert_density(self, prior: Any, log_pdf: Any, slope: Any, w: Any) -> None:
        """`log_prob` and its gradient, in both precisions, against float64 by SciPy."""
        for dtype, digits in ((tf.float64, 1e-12), (tf.float32, 3e-6)):
            x = tf.constant(w, dtype)
            with tf.GradientTape() as tape:
                tape.watch(x)
                log_prob = prior.log_prob(x)
            at = x.numpy().astype(np.float64)
            self.assertEqual(log_prob.dtype, dtype)
            self.assertAllClose(log_prob, log_pdf(at), digits, 3 * digits)
            self.assertAllClose(tape.gradient(log_prob, x), slope(at), 10 * digits, 1e-30)

    def assert_expectation(self, prior: Any, log_pdf: Any) -> None:
        """`expected_log_prob` and `kl_from_normal`: integration, Monte Carlo, and float32."""
        mu, sigma = tf.constant(MU), tf.constant(SIGMA)
        expected = np.array([expectation(log_pdf, m, s) for m, s in zip(MU, SIGMA, strict=True)])
        self.assertAllClose(prior.expected_log_prob(mu, sigma), expected, 1e-9, 1e-9)
        entropy = np.sum(scipy.stats.norm(MU, SIGMA).entropy())
        kl = prior.kl_from_normal(mu, sigma)
        self.assertAllClose(kl, -entropy - expected.sum(), 1e-9)
        in_float32 = prior.kl_from_normal(tf.cast(mu, tf.float32), tf.cast(sigma, tf.float32))
        self.assertAllClose(in_float32, kl, 1e-5)
        w = MU + SIGMA * np.random.default_rng(0).normal(size=(SAMPLES, len(MU)))
        log_ratio = scipy.stats.norm(MU, SIGMA).logpdf(w) - log_pdf(w)
        self.assert_mean(log_ratio.sum(axis=1), kl)

    def assert_gradient_of_kl(self, prior: Any) -> None:
        """Holds the gradient of `kl_from_normal` in mu and sigma against differences in float64."""
        mu, sigma = tf.constant(MU), tf.constant(SIGMA)
        with tf.GradientTape() as tape:
            tape.watch([mu, sigma])
            kl = prior.kl_from_normal(mu, sigma)
        gradient = np.concatenate(tape.gradient(kl, (mu, sigma)))
        flat = np.concatenate([MU, SIGMA])

        def f(values: Any) -> float:
            return float(prior.kl_from_normal(*map(tf.constant, np.split(values, 2))))

        by_differences = scipy.optimize.approx_fprime(flat, f, 1e-6 * np.abs(flat) + 1e-8)
        self.assertAllClose(gradient, by_differences, 1e-4, 1e-4)

    def assert_law(self, prior: Any, cdf: Any, shape: Any = (300, 200)) -> None:
        """`sample` by Kolmogorov and Smirnov; equal keys give equal samples, also under XLA."""
        w = prior.sample(KEY, shape)
        self.assertEqual((w.shape, w.dtype), (shape, tf.float32))
        self.assertTrue(np.all(np.isfinite(w)))
        p_value = scipy.stats.kstest(np.ravel(w), cdf, method="asymp").pvalue
        self.assertGreater(p_value, 1e-5)
        compiled = tf.function(lambda key: prior.sample(key, shape), jit_compile=True)
        same = np.isclose(compiled(KEY), w, 1e-4, 1e-6)
        self.assertGreater(np.mean(same), 1 - 1e-4)

    def assert_mean(self, samples: Any, expected: Any, errors: int = 4) -> None:
        """Asserts that the mean of independent samples (their first axis) is what is expected."""
        samples = np.asarray(samples)
        standard_error = samples.std(axis=0) / np.sqrt(len(samples))
        difference = np.abs(samples.mean(axis=0) - expected)
        self.assertTrue(np.all(difference < errors * standard_error), (difference, standard_error))

    def learn_scales(self, prior: Any, cost: Any) -> None:
        """Empirical Bayes: minimises `cost()` over the scalar variables of `prior`.

        Its gradient is held against differences on the way.
        """
        variables = prior.trainable_variables

        def assign(values: Any) -> None:
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)

        def cost_and_gradient(values: Any) -> Any:
            assign(values)
            with tf.GradientTape() as tape:
                total = cost()
            gradient = tape.gradient(total, [v.value for v in variables])
            return float(total), np.array(gradient, np.float64)

        start = [float(v) for v in variables]
        by_differences = scipy.optimize.approx_fprime(start, lambda v: cost_and_gradient(v)[0])
        self.assertAllClose(cost_and_gradient(start)[1], by_differences, 1e-4, 1e-3)
        assign(scipy.optimize.minimize(cost_and_gradient, start, jac=True).x)
