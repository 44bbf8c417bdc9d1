"""Student's t prior against SciPy."""

import math
from typing import Any

import keras
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized
from prior_checks import TAILS, PriorChecks

from tfbdl import priors


class StudentTTest(PriorChecks, tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(df=(0.5, 1.0, 3.0, 100.0), scale=(1e-3, 2.0))
    def test_density(self, df: Any, scale: Any) -> None:
        p = scipy.stats.t(df, 0, scale)

        def slope(w: Any) -> Any:
            return -(df + 1) * w / (df * scale**2 + w**2)

        self.assert_density(priors.StudentT(df, scale), p.logpdf, slope, scale * TAILS)

    @parameterized.parameters(0.7, 1.0, 3.0, 50.0)
    def test_law(self, df: Any) -> None:
        self.assert_law(priors.StudentT(df, 0.5), scipy.stats.t(df, 0, 0.5).cdf)

    def test_no_closed_form(self) -> None:
        self.assertIsNone(priors.StudentT().expected_log_prob(tf.zeros([2]), tf.ones([2])))
        self.assertIsNone(priors.StudentT().kl_from_normal(tf.zeros([2]), tf.ones([2])))

    def test_scale_is_learned(self) -> None:
        """The maximum likelihood of known weights, as by SciPy."""
        w = scipy.stats.t(4, 0, 0.2).rvs(2000, random_state=0)
        prior = priors.StudentT(4.0, trainable=True, dtype="float64")
        self.learn_scales(prior, lambda: -tf.reduce_sum(prior.log_prob(tf.constant(w))))
        expected = scipy.stats.t.fit(w, fdf=4, floc=0)[2]
        self.assertAllClose(prior.scale, expected, 1e-3)
        self.assertAllClose(prior.scale, 0.2, 0.1)

    def test_config(self) -> None:
        prior = priors.StudentT(5.0, 0.3, trainable=True)
        again = priors.get(keras.saving.serialize_keras_object(prior))
        self.assertEqual(again.get_config(), prior.get_config())
        self.assertLen(again.trainable_variables, 1)

    @parameterized.parameters(0, -1.0, math.inf, math.nan, None, "many")
    def test_arguments_are_checked(self, wrong: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^df=.* must be positive: degrees of freedom$"):
            priors.StudentT(wrong)
        with self.assertRaisesRegex(ValueError, "^scale=.* must be a positive number"):
            priors.StudentT(scale=wrong)


if __name__ == "__main__":
    tf.test.main()
