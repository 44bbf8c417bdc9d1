"""The prior over binary weights against SciPy."""

from typing import Any

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized

from tfbdl import priors

KEY = tf.constant(123, tf.int64)


class BernoulliTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(prob=(0.1, 0.5, 0.9), values=((-1.0, 1.0), (-0.1, 0.3), (0.0, 2.0)))
    def test_log_prob(self, prob: Any, values: Any) -> None:
        p = scipy.stats.bernoulli(prob)
        for dtype in ("float32", "float64"):
            w = tf.constant([values, values[::-1]], dtype)
            got = priors.Bernoulli(prob, values).log_prob(w)
            self.assertAllClose(got, p.logpmf([[0, 1], [1, 0]]), 1e-6)
            self.assertEqual(got.dtype, dtype)

    def test_nothing_lies_between_the_values(self) -> None:
        got = priors.Bernoulli().log_prob(tf.constant([-1.5, 0.0, 0.999, 1.0]))
        self.assertAllClose(got, [-np.inf, -np.inf, -np.inf, np.log(0.5)])

    @parameterized.product(prob=(0.1, 0.5, 0.9), values=((-1.0, 1.0), (-0.1, 0.3)))
    def test_sample(self, prob: Any, values: Any) -> None:
        prior = priors.Bernoulli(prob, values)
        w = prior.sample(KEY, (200, 500)).numpy()
        self.assertAllEqual(np.unique(w), np.float32(values))
        error = np.sqrt(prob * (1 - prob) / w.size)
        self.assertLess(abs(np.mean(w == np.float32(values[1])) - prob), 5 * error)
        error = (values[1] - values[0]) * error
        self.assertLess(abs(w.mean(dtype=np.float64) - prior.mean), 5 * error)
        self.assertTrue(np.all(np.isfinite(prior.log_prob(tf.constant(w)))))

    @parameterized.parameters(0.0, 1.0, -0.5, float("nan"), None, "half", True)
    def test_prob_is_checked(self, prob: Any) -> None:
        with self.assertRaisesRegex(ValueError, r"^prob=.* must be in \(0, 1\)$"):
            priors.Bernoulli(prob)

    @parameterized.parameters(
        ((1.0, -1.0),), ((1.0, 1.0),), ((0.0, np.inf),), ((0.0,),), ((0, 1, 2),), (1.0,), ("ab",)
    )
    def test_values_are_checked(self, values: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^values=.* two finite numbers, the lower first$"):
            priors.Bernoulli(0.5, values)

    def test_is_over_no_density(self) -> None:
        prior = priors.get("bernoulli")
        self.assertTrue(prior.discrete)
        self.assertIsNone(prior.kl_from_normal(tf.zeros([2]), tf.ones([2])))

    def test_config(self) -> None:
        prior = priors.Bernoulli(0.3, np.array([-0.5, 2.0]))
        again = priors.get(keras.saving.serialize_keras_object(prior))
        self.assertEqual((again.prob, again.values), (0.3, (-0.5, 2.0)))
        self.assertAllClose(again.mean, 0.3 * 2.0 - 0.7 * 0.5)


if __name__ == "__main__":
    tf.test.main()
