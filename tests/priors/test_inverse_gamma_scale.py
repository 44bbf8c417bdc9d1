"""The hierarchy that integrates to Student's t."""

import math
from typing import Any

import numpy as np
import scipy.integrate
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized
from prior_checks import PriorChecks

from tfbdl import priors


class InverseGammaScaleTest(PriorChecks, tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(df=(1.0, 4.0, 30.0), scale=(0.1, 2.0))
    def test_marginal_by_integration(self, df: Any, scale: Any) -> None:
        """N(w; 0, s^2) InverseGamma(s^2; df / 2, df scale^2 / 2) over s^2 is t(df, scale)."""
        p = scipy.stats.invgamma(0.5 * df, scale=0.5 * df * scale**2)
        for w in scale * np.array([0.0, 0.3, -2.0, 10.0]):

            def joint(u: Any, w: Any = w) -> Any:
                s = np.exp(u)
                return scipy.stats.norm(0, s).pdf(w) * p.pdf(s**2) * 2 * s**2

            centre = 0.5 * np.log((df * scale**2 + w**2) / (df + 1))
            ends = centre - 8, centre + 20
            marginal, _ = scipy.integrate.quad(joint, *ends, points=[centre], epsabs=0)
            log_prob = priors.StudentT(df, scale).log_prob(tf.constant(w))
            self.assertAllClose(np.log(marginal), log_prob, 1e-6, 1e-6)

    @parameterized.parameters(0.5, 1.0, 4.0, 30.0)
    def test_marginal_by_samples(self, df: Any) -> None:
        prior = priors.InverseGammaScale(df, 0.5)
        self.assert_law(prior, scipy.stats.t(df, 0, 0.5).cdf)

    def test_bound_lies_below_the_evidence(self) -> None:
        """For a point w the best q(s) comes within 0.05 nat of log t(w), from below."""
        prior = priors.InverseGammaScale(3.0, 1.0, dtype="float64")
        w = tf.constant([0.0, 0.5, 3.0, 30.0], tf.float64)
        prior.attach((4,))
        m, rho = prior.trainable_variables
        n, a, b = 1, 1.5, 1.5
        v = math.sqrt(1 / (2 * (n + 2 * a)))
        m.assign(0.5 * np.log((np.square(w) + 2 * b) / (n + 2 * a)) + v**2)
        rho.assign(np.full(4, math.log(math.expm1(v))))
        bound = tf.reduce_sum(prior.log_prob(w)) - prior.kl()
        evidence = np.sum(scipy.stats.t(3).logpdf(w))
        self.assertBetween(float(evidence - bound), 0.0, 4 * 0.05)

    @parameterized.parameters(0, -1.0, math.inf, math.nan, None)
    def test_arguments_are_checked(self, wrong: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^df=.* must be positive: degrees of freedom$"):
            priors.InverseGammaScale(wrong)
        with self.assertRaisesRegex(ValueError, "^scale=.* must be a positive number$"):
            priors.InverseGammaScale(scale=wrong)
        with self.assertRaisesRegex(ValueError, f"^groups={wrong!r}"):
            priors.InverseGammaScale(groups=wrong)


if __name__ == "__main__":
    tf.test.main()
