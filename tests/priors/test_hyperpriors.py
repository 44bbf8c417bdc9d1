"""p(log s) against SciPy and numerical integration; the KL of its log-normal posterior."""

from typing import Any

import keras
import numpy as np
import scipy.optimize
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized
from prior_checks import PriorChecks, expectation

from tfbdl.priors.groups import Groups
from tfbdl.priors.hyperpriors import HalfCauchy, InverseGamma
from tfbdl.priors.log_normal_posterior import LogNormalPosterior


def inverse_gamma(shape: Any, rate: Any) -> Any:
    """Log density of u = log s by SciPy's of s^2, d(s^2) / du = 2 s^2."""
    p = scipy.stats.invgamma(shape, scale=rate)
    return lambda u: p.logpdf(np.exp(2 * u)) + np.log(2) + 2 * u


def half_cauchy(scale: Any) -> Any:
    p = scipy.stats.halfcauchy(scale=scale)
    return lambda u: p.logpdf(np.exp(u)) + u


HYPERPRIORS = (
    (InverseGamma, inverse_gamma, (0.5, 0.005)),
    (InverseGamma, inverse_gamma, (1.5, 6.0)),
    (InverseGamma, inverse_gamma, (30.0, 3.0)),
    (HalfCauchy, half_cauchy, (1.0,)),
    (HalfCauchy, half_cauchy, (0.01,)),
)
M = np.array([-6.0, -2.0, -0.5, 0.0, 0.1, 1.0, 4.0])


class HyperpriorTest(PriorChecks, tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(hyperprior=HYPERPRIORS, v=(1e-3, 0.1, 0.5, 1.0, 1.6, 2.5))
    def test_expectation(self, hyperprior: Any, v: Any) -> None:
        make, log_pdf_of, arguments = hyperprior
        log_pdf, mode = log_pdf_of(*arguments), make(*arguments).mode
        expected = [expectation(log_pdf, m, v, (mode, m - 2 * v**2)) for m in M]
        got = make(*arguments).expected_log_prob(tf.constant(M), tf.fill(M.shape, np.float64(v)))
        self.assertAllClose(got, expected, 1e-8, 1e-6)

    @parameterized.parameters(*HYPERPRIORS)
    def test_mode_and_curvature(self, make: Any, log_pdf_of: Any, arguments: Any) -> None:
        log_pdf, p, h = log_pdf_of(*arguments), make(*arguments), 1e-4
        best = scipy.optimize.minimize_scalar(lambda u: -log_pdf(u), (p.mode - 0.3, p.mode + 0.4))
        self.assertAllClose(best.x, p.mode, atol=1e-5)
        values = log_pdf(p.mode + h * np.array([-1, 0, 1]))
        self.assertAllClose(-np.diff(values, 2)[0] / h**2, p.curvature, 1e-4)

    @parameterized.parameters(*HYPERPRIORS)
    def test_law(self, make: Any, log_pdf_of: Any, arguments: Any) -> None:
        if make is InverseGamma:
            cdf = scipy.stats.invgamma(arguments[0], scale=arguments[1]).cdf
            self.assert_law(make(*arguments), lambda u: cdf(np.exp(2 * u)))
        else:
            cdf = scipy.stats.halfcauchy(scale=arguments[0]).cdf
            self.assert_law(make(*arguments), lambda u: cdf(np.exp(u)))


class LogNormalTest(tf.test.TestCase, parameterized.TestCase):
    def make(self, hyperprior: Any, groups: str = "output", shape: Any = (5, 7)) -> Any:
        owner = keras.layers.Layer(dtype="float64")
        return LogNormalPosterior(owner, "s", Groups(groups), shape, hyperprior)

    @parameterized.parameters(*HYPERPRIORS)
    def test_kl(self, make: Any, log_pdf_of: Any, arguments: Any) -> None:
        q = self.make(make(*arguments))
        rng = np.random.default_rng(0)
        q.m.assign(rng.normal(size=(1, 7)))
        q.rho.assign(rng.normal(-1, 0.5, (1, 7)))
        m, v = np.ravel(q.mean), np.ravel(q.stddev)
        self.assertAllClose(v, np.logaddexp(0, np.ravel(q.rho)), 1e-12)
        log_pdf = log_pdf_of(*arguments)
        cuts = (np.log(arguments[-1]),)
        cross = [expectation(log_pdf, a, b, cuts) for a, b in zip(m, v, strict=True)]
        expected = -np.sum(cross) - np.sum(scipy.stats.norm(m, v).entropy())
        self.assertAllClose(q.kl(), expected, 1e-8, 1e-6)

    @parameterized.parameters(*HYPERPRIORS, (HalfCauchy, half_cauchy, (5.0,)))
    def test_start(self, make: Any, log_pdf_of: Any, arguments: Any) -> None:
        hyperprior = make(*arguments)
        q = self.make(hyperprior, groups="layer")
        self.assertAllClose(q.mean, [[max(hyperprior.mode, 0.0)]], 1e-12)
        self.assertAllClose(q.stddev, [[(70 + hyperprior.curvature) ** -0.5]], 1e-12)
        self.assertEqual([v.path for v in q.trainable_variables], ["s/m", "s/rho"])


if __name__ == "__main__":
    tf.test.main()
