"""The scale mixture against SciPy, far into the tails and for scales of any ratio."""

import math
from typing import Any

import keras
import numpy as np
import scipy.special
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized
from prior_checks import TAILS, PriorChecks

from tfbdl import priors


def components(w: Any, pi: Any, sigma1: Any, sigma2: Any) -> Any:
    """Log densities of both normals with their weights."""
    return np.stack(
        [
            math.log(pi) + scipy.stats.norm(0, sigma1).logpdf(w),
            math.log1p(-pi) + scipy.stats.norm(0, sigma2).logpdf(w),
        ]
    )


class ScaleMixtureTest(PriorChecks, tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(
        (0.25, math.exp(-1), math.exp(-7)),
        (0.75, 1.0, math.exp(-8)),
        (0.5, 0.3, 0.2),
        (0.5, 0.3, 0.3),
        (0.001, 1.0, 1e-6),
        (0.999, 1e-6, 1.0),
        (0.25, 10.0, 1e-9),
        (0.25, 1e-9, 10.0),
    )
    def test_density(self, pi: Any, sigma1: Any, sigma2: Any) -> None:
        """At up to 100 of either scale, with the slope's weights by SciPy's softmax."""

        def log_pdf(w: Any) -> Any:
            return scipy.special.logsumexp(components(w, pi, sigma1, sigma2), axis=0)

        def slope(w: Any) -> Any:
            share = scipy.special.softmax(components(w, pi, sigma1, sigma2), axis=0)
            return -w * (share[0] / sigma1**2 + share[1] / sigma2**2)

        prior = priors.ScaleMixture(pi, sigma1, sigma2)
        for scale in (sigma1, sigma2):
            self.assert_density(prior, log_pdf, slope, scale * TAILS)

    def test_weights_pull_far_out(self) -> None:
        """log(density + 1e-6), as seen elsewhere, has no slope there."""
        w = tf.constant([5.0, -30.0])
        with tf.GradientTape() as tape:
            tape.watch(w)
            log_prob = priors.ScaleMixture(0.25, 1.0, 0.1).log_prob(w)
        self.assertAllClose(tape.gradient(log_prob, w), -w, 1e-6)

    @parameterized.parameters((0.25, 1.0, 0.05), (0.9, 0.1, 2.0))
    def test_law(self, pi: Any, sigma1: Any, sigma2: Any) -> None:
        first, second = (scipy.stats.norm(0, sigma).cdf for sigma in (sigma1, sigma2))
        self.assert_law(
            priors.ScaleMixture(pi, sigma1, sigma2),
            lambda w: pi * first(w) + (1 - pi) * second(w),
        )

    def test_no_closed_form(self) -> None:
        self.assertIsNone(priors.ScaleMixture().kl_from_normal(tf.zeros([2]), tf.ones([2])))

    def test_scales_are_learned(self) -> None:
        """They come back from 20,000 weights drawn from a known mixture."""
        true = priors.ScaleMixture(0.3, 1.0, 0.05)
        w = tf.cast(true.sample(tf.constant(456, tf.int64), (20_000,)), tf.float64)
        prior = priors.ScaleMixture(0.3, 0.5, 0.2, trainable=True, dtype="float64")
        self.learn_scales(prior, lambda: -tf.reduce_sum(prior.log_prob(w)))
        self.assertAllClose((prior.sigma1, prior.sigma2), (1.0, 0.05), 0.04)

    def test_config(self) -> None:
        prior = priors.ScaleMixture(0.4, 2.0, 0.1, trainable=True)
        again = priors.get(keras.saving.serialize_keras_object(prior))
        self.assertEqual(again.get_config(), prior.get_config())
        self.assertLen(again.trainable_variables, 2)

    @parameterized.parameters(0.0, 1.0, -0.1, math.nan, None)
    def test_pi_is_checked(self, pi: Any) -> None:
        with self.assertRaisesRegex(ValueError, r"^pi=.* must be in \(0, 1\)"):
            priors.ScaleMixture(pi)

    @parameterized.parameters(0.0, -1.0, math.inf, "wide")
    def test_scales_are_checked(self, wrong: Any) -> None:
        for name in ("sigma1", "sigma2"):
            with self.assertRaisesRegex(ValueError, f"^{name}=.* must be a positive number"):
                priors.ScaleMixture(**{name: wrong})


if __name__ == "__main__":
    tf.test.main()
