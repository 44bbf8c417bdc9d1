"""The prior as posterior: its samples, its KL of zero, and the prior predictive distribution."""

from typing import Any

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized
from posterior_families import KEY, make, samples

import tfbdl
from tfbdl import posteriors, priors
from tfbdl.layers import BayesDense

NUM = 20_000
X = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")


def mixture_cdf(w: Any) -> Any:
    return 0.3 * scipy.stats.norm.cdf(w, 0, 1.0) + 0.7 * scipy.stats.norm.cdf(w, 0, 0.1)


class SamplesTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(
        (lambda: priors.Normal(2.0), scipy.stats.norm(0, 2.0).cdf),
        (lambda: priors.Normal("fan_in", sigma=2.0), scipy.stats.norm(0, 2.0 / np.sqrt(3)).cdf),
        (lambda: priors.Laplace(0.5), scipy.stats.laplace(0, 0.5).cdf),
        (lambda: priors.StudentT(3.0, 0.5), scipy.stats.t(3, 0, 0.5).cdf),
        (lambda: priors.ScaleMixture(0.3, 1.0, 0.1), mixture_cdf),
    )
    def test_are_those_of_the_prior(self, prior: Any, cdf: Any) -> None:
        """Each element, and independent of the others."""
        w = samples(make("prior", prior()), NUM)
        for column in w.T:
            self.assertGreater(scipy.stats.kstest(column, cdf, method="asymp").pvalue, 1e-5)
        ranks = scipy.stats.rankdata(w, axis=0)
        off = np.corrcoef(ranks.T)[~np.eye(12, dtype=bool)]
        self.assertLess(np.abs(off).max(), 5 / np.sqrt(NUM))

    def test_binary(self) -> None:
        q = make("prior", priors.Bernoulli(0.3, (-0.5, 2.0)))
        w = samples(q, NUM)
        self.assertAllEqual(np.unique(w), [-0.5, 2.0])
        error = np.sqrt(0.3 * 0.7 / NUM)
        self.assertLess(np.abs(np.mean(w == 2.0, axis=0) - 0.3).max(), 5 * error)
        self.assertAllClose(q.mean, np.full((3, 4), 0.3 * 2.0 - 0.7 * 0.5), 1e-12)

    @parameterized.product(exact=(True, False), prior=("normal", "student_t", "bernoulli"))
    def test_kl_is_zero(self, exact: Any, prior: Any) -> None:
        q = make("prior", prior, exact=exact)
        self.assertAllEqual(q.kl(KEY), 0.0)
        self.assertAllEqual(q.sample_and_kl(KEY)[1], 0.0)

    @parameterized.parameters("ard", "horseshoe", "inverse_gamma_scale")
    def test_posterior_of_scales_costs_nothing(self, prior: Any) -> None:
        """Weights are drawn under p(s), not under q(s)."""
        layer = BayesDense(2, num_data=10, prior=prior, posterior="prior")
        for training in (True, False):
            layer(X, training=training)
            self.assertAllEqual(layer.losses, [0.0])

    def test_posterior_of_scales_is_paid_for_where_it_is_used(self) -> None:
        prior = priors.ARD()
        drawn, learned = (
            BayesDense(2, num_data=10, prior=prior, posterior=q) for q in ("prior", "mean_field")
        )
        learned(X)
        own = sum(float(q.exact_kl()) for q in learned.random_weights)
        self.assertAllClose(sum(learned.losses), (own + float(prior.kl())) / 10, 1e-5)
        drawn(X)
        self.assertAllEqual(drawn.losses, [0.0])

    def test_hyper_parameters_can_be_trained(self) -> None:
        """w = exp(log scale) z, so dw / d log scale = w."""
        q = make("prior", priors.Normal(0.5, trainable=True))
        (log_scale,) = q.trainable_variables
        with tf.GradientTape() as tape:
            w = q.sample(KEY)[0, 0]
        self.assertAllClose(tape.gradient(w, log_scale.value), w, 1e-6)

    @parameterized.parameters("flat", "log_uniform")
    def test_improper_priors_are_refused(self, prior: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^prior=.* is improper: .* posterior='prior'$"):
            BayesDense(3, num_data=10, prior=prior, posterior="prior")

    @parameterized.parameters("local_reparameterization", "flipout")
    def test_estimators_that_need_more_are_refused(self, estimator: str) -> None:
        with self.assertRaisesRegex(
            ValueError, f"^estimator='{estimator}' .*posterior=PriorItself"
        ):
            BayesDense(3, num_data=10, posterior="prior", estimator=estimator)


class PriorPredictiveTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(
        (0.5, 0.5**2, 0.5**2),
        ("laplace", 2.0, 2.0),
        (lambda: priors.Normal("fan_in", sigma=3.0), 9.0 / 3, 9.0),
        ("bernoulli", 1.0, 1.0),
    )
    def test_of_a_linear_layer(self, prior: Any, variance: Any, bias_variance: Any) -> None:
        """Mean 0 and variance sum_i x_i^2 Var(w) + Var(b)."""
        prior = prior() if callable(prior) else prior
        layer = BayesDense(2, num_data=10, prior=prior, posterior="prior")
        model = keras.Sequential([keras.Input((3,)), layer])
        y = tfbdl.predict(model, X, 4000, seed=1, return_samples=True).outputs
        expected = np.sum(X**2, axis=1, keepdims=True) * variance + bias_variance
        self.assertLess(np.max(np.abs(y.mean(axis=0)) / np.sqrt(expected / 4000)), 5)
        error = np.std(y**2, axis=0) / np.sqrt(4000)
        self.assertLess(np.max(np.abs(np.mean(y**2, axis=0) - expected) / error), 5)

    def test_nothing_is_learned(self) -> None:
        model = keras.Sequential([keras.Input((3,)), BayesDense(2, num_data=5, posterior="prior")])
        model(X, training=True)
        self.assertEmpty(model.trainable_variables)
        self.assertAllEqual(model.losses, [0.0])
        self.assertAllEqual(model(X), np.zeros((5, 2)))

    def test_beside_a_posterior_in_float64(self) -> None:
        layer = BayesDense(
            2, num_data=5, posterior="prior", bias_posterior="mean_field", dtype="float64"
        )
        self.assertEqual(layer(X, training=True).dtype, tf.float64)
        self.assertEqual(layer.losses[0].dtype, tf.float64)
        self.assertIsInstance(layer.kernel, posteriors.PriorItself)


if __name__ == "__main__":
    tf.test.main()
