"""Gamma noise, in law, and its logarithm where it underflows."""

from typing import Any

import numpy as np
import scipy.special
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized
from prior_checks import PriorChecks

from tfbdl.priors.gamma import log_gamma

KEY = tf.constant(123, tf.int64)


class LogGammaTest(PriorChecks, tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(0.1, 0.5, 1.0, 3.0, 200.0)
    def test_law(self, concentration: Any) -> None:
        g = np.exp(np.float64(log_gamma(KEY, concentration, (200_000,))))
        p = scipy.stats.gamma(concentration)
        self.assertGreater(scipy.stats.kstest(g, p.cdf, method="asymp").pvalue, 1e-5)
        self.assert_mean(g, concentration)

    def test_tail_of_small_concentrations(self) -> None:
        """Gamma(0.01) itself lies below 1e-38 for four in ten: P(g < x) ~ x^a / Gamma(a + 1)."""
        log_g = log_gamma(KEY, 0.01, (100_000,)).numpy()
        self.assertTrue(np.all(np.isfinite(log_g)))
        for log_x in (-20.0, -87.0, -200.0):
            self.assert_mean(log_g < log_x, np.exp(0.01 * log_x - scipy.special.gammaln(1.01)))

    def test_elements_and_keys_are_independent(self) -> None:
        a, b = (log_gamma(tf.constant(s, tf.int64), 2.0, (50_000,)).numpy() for s in (1, 2))
        for first, second in ((a, b), (a[:-1], a[1:]), (a[:25_000], a[25_000:])):
            correlation = np.corrcoef(first, second)[0, 1]
            self.assertLess(abs(correlation), 4 / np.sqrt(len(first)))


if __name__ == "__main__":
    tf.test.main()
