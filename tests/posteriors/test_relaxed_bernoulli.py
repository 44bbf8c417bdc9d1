"""Binary weights: the discrete law, its relaxation, and a network that learns its signs."""

import itertools
from typing import Any

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
from absl.testing import parameterized
from posterior_families import KEY, SHAPE, keys, make, samples

import tfbdl
from tfbdl import posteriors, priors
from tfbdl.layers import BayesDense

tfd = tfp.distributions
VALUES = (-0.1, 0.3)
NUM = 20_000


def binary(**kwargs: Any) -> Any:
    return make("relaxed_bernoulli", priors.Bernoulli(0.3, VALUES), **kwargs)


def relaxed(q: Any, num: Any) -> Any:
    return tf.vectorized_map(lambda key: q.sample_and_kl(key)[0], keys(num)).numpy()


class DiscreteLawTest(tf.test.TestCase):
    def test_samples(self) -> None:
        q = binary()
        w = samples(q, NUM)
        self.assertAllEqual(np.unique(w), VALUES)
        prob = 1 / (1 + np.exp(-q.logit.numpy().ravel()))
        error = np.sqrt(prob * (1 - prob) / NUM)
        self.assertLess(np.max(np.abs(np.mean(w == VALUES[1], axis=0) - prob) / error), 5)
        off = np.corrcoef(w.T)[~np.eye(12, dtype=bool)]
        self.assertLess(np.abs(off).max(), 5 / np.sqrt(NUM))

    def test_moments_by_enumeration(self) -> None:
        q = binary()
        prob = 1 / (1 + np.exp(-q.logit.numpy()))
        mean = (1 - prob) * VALUES[0] + prob * VALUES[1]
        square = (1 - prob) * VALUES[0] ** 2 + prob * VALUES[1] ** 2
        self.assertAllClose(q.mean, mean, 1e-12)
        self.assertAllClose(q.stddev, np.sqrt(square - mean**2), 1e-9)

    def test_log_prob(self) -> None:
        """The density of the values exactly, in float32 too, where -0.1 and 0.3 are rounded."""
        for dtype in ("float32", "float64"):
            q = binary(dtype=dtype)
            w = q.sample(KEY)
            p = scipy.stats.bernoulli(1 / (1 + np.exp(-np.float64(q.logit))))
            expected = p.logpmf(np.asarray(w) > 0)
            self.assertAllClose(q.log_prob(w), expected, 1e-5 if dtype == "float32" else 1e-12)
            self.assertAllEqual(q.log_prob(w + 0.01), np.full(SHAPE, -np.inf))

    def test_extreme_logits(self) -> None:
        q = binary()
        q.raw_logit.assign(np.resize([-1e4, -100.0, 0.0, 100.0, 1e4], SHAPE))
        with tf.GradientTape() as tape:
            w, kl = q.sample_and_kl(KEY)
            loss = tf.reduce_sum(w) + kl
        self.assertTrue(np.all(np.isfinite(tape.gradient(loss, q.raw_logit.value))))
        p, prior = tfd.Bernoulli(logits=q.logit), tfd.Bernoulli(probs=tf.constant(0.3, tf.float64))
        self.assertAllClose(kl, tf.reduce_sum(tfd.kl_divergence(p, prior)), 1e-10)
        self.assertTrue(np.all(np.isfinite(q.stddev)))


class KLTest(tf.test.TestCase):
    def test_is_the_exact_discrete_one(self) -> None:
        """The KL of TFP, and the one summed over all 2^4 weights."""
        q = binary(shape=(2, 2))
        p, prior = tfd.Bernoulli(logits=q.logit), tfd.Bernoulli(probs=tf.constant(0.3, tf.float64))
        self.assertAllClose(q.kl(KEY), tf.reduce_sum(tfd.kl_divergence(p, prior)), 1e-12)
        total = 0.0
        for values in itertools.product(VALUES, repeat=4):
            w = tf.constant(np.reshape(values, (2, 2)))
            log_q, log_p = (float(tf.reduce_sum(d.log_prob(w))) for d in (q, q.prior))
            total += np.exp(log_q) * (log_q - log_p)
        self.assertAllClose(q.kl(KEY), total, 1e-12)

    def test_is_the_mean_of_estimates(self) -> None:
        q = binary()
        expected = q.kl(KEY)
        q.exact = False
        estimates = tf.vectorized_map(q.kl, keys(100_000)).numpy()
        error = estimates.std() / np.sqrt(len(estimates))
        self.assertLess(abs(estimates.mean() - expected), 4 * error)

    def test_gradient(self) -> None:
        """d KL / d logit = p (1 - p) (logit - logit of the prior)."""
        q = binary()
        with tf.GradientTape() as tape:
            kl = q.sample_and_kl(KEY)[1]
        p, logit = q.prob.numpy(), q.logit.numpy()
        expected = p * (1 - p) * (logit - np.log(0.3 / 0.7))
        self.assertAllClose(tape.gradient(kl, q.raw_logit.value), expected, 1e-10)


class RelaxationTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(0.1, 2 / 3)
    def test_law(self, temperature: Any) -> None:
        """(w - low) / (high - low) is that of TFP's RelaxedBernoulli, ends cut where it rounds."""
        template = posteriors.RelaxedBernoulli(temperature)
        q = template.create(
            keras.layers.Layer(dtype="float64"),
            "w",
            (3,),
            keras.initializers.Constant([-0.05, 0.1, 0.25]),
            priors.Bernoulli(0.3, VALUES),
        )
        r = (relaxed(q, NUM) - VALUES[0]) / (VALUES[1] - VALUES[0])
        law = tfd.RelaxedBernoulli(tf.constant(temperature, tf.float64), logits=q.logit)
        theirs = law.sample(NUM, seed=(1, 2)).numpy()
        for a, b in zip(*(np.clip(s, 1e-6, 1 - 1e-6).T for s in (r, theirs)), strict=True):
            self.assertGreater(scipy.stats.ks_2samp(a, b, method="asymp").pvalue, 1e-5)

    def test_rounds_to_the_discrete_sample_of_the_same_noise(self) -> None:
        q = binary()
        w, discrete = relaxed(q, 1000).reshape(1000, -1), samples(q, 1000)
        self.assertAllEqual(np.where(w > np.mean(VALUES), *VALUES[::-1]), discrete)

    def test_gradient_by_differences(self) -> None:
        q = binary()
        c = tf.constant(np.random.default_rng(1).normal(size=SHAPE))
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(c * q.sample_and_kl(KEY)[0] ** 2)
        gradient, h = tape.gradient(value, q.raw_logit.value), 1e-5
        start, slopes = q.raw_logit.numpy(), []
        for sign in (1, -1):
            q.raw_logit.assign(start + sign * h)
            slopes.append(c * q.sample_and_kl(KEY)[0] ** 2)
        self.assertAllClose(gradient, (slopes[0] - slopes[1]) / (2 * h), 1e-6, 1e-8)

    def test_gradient_is_near_the_discrete_one_when_cold(self) -> None:
        """E[w] has slope (high - low) p (1 - p) in the logit."""
        q = posteriors.RelaxedBernoulli(0.05).create(
            keras.layers.Layer(dtype="float64"),
            "w",
            (NUM,),
            keras.initializers.Constant(0.2),
            priors.Bernoulli(0.3, VALUES),
        )
        with tf.GradientTape() as tape:
            w = q.sample_and_kl(KEY)[0]
        slopes = tape.gradient(w, q.raw_logit.value).numpy()
        p = q.prob.numpy()[0]
        error = slopes.std() / np.sqrt(NUM)
        expected = (VALUES[1] - VALUES[0]) * p * (1 - p)
        self.assertLess(abs(slopes.mean() - expected), 4 * error + 1e-3 * expected)


class ArgumentsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(1.0, "laplace", "flat", "log_uniform")
    def test_continuous_priors_are_refused(self, prior: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^prior=.* two values; use prior='bernoulli'$"):
            BayesDense(3, num_data=10, prior=prior, posterior="relaxed_bernoulli")

    @parameterized.parameters("mean_field", "logistic", "laplace", "point")
    def test_continuous_posteriors_refuse_the_prior(self, posterior: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^prior=Bernoulli .*'relaxed_bernoulli'$"):
            BayesDense(3, num_data=10, prior="bernoulli", posterior=posterior)

    @parameterized.parameters("local_reparameterization", "flipout")
    def test_estimators(self, estimator: str) -> None:
        with self.assertRaisesRegex(ValueError, f"^estimator='{estimator}' .*RelaxedBernoulli"):
            BayesDense(
                3,
                num_data=10,
                prior="bernoulli",
                posterior="relaxed_bernoulli",
                estimator=estimator,
            )

    def test_sampled_kl_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "^kl='sample' has no gradient .*; use 'auto'$"):
            BayesDense(
                3, num_data=10, prior="bernoulli", posterior="relaxed_bernoulli", kl="sample"
            )

    @parameterized.parameters(0.0, -1.0, float("inf"), float("nan"), None, "cold", True)
    def test_temperature(self, temperature: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^temperature=.* must be > 0$"):
            posteriors.RelaxedBernoulli(temperature)

    def test_config(self) -> None:
        config = keras.saving.serialize_keras_object(posteriors.RelaxedBernoulli(0.25))
        self.assertEqual(posteriors.get(config).temperature, 0.25)

    @parameterized.parameters((-1.0, 0.01), (-0.1, 0.01), (0.1, 0.5), (0.3, 0.99), (7.0, 0.99))
    def test_means_start_within_the_values(self, mean: Any, prob: Any) -> None:
        start = keras.initializers.Constant(mean)
        q = posteriors.RelaxedBernoulli().create(
            keras.layers.Layer(), "w", SHAPE, start, priors.Bernoulli(0.3, VALUES)
        )
        self.assertAllClose(q.prob, np.full(SHAPE, prob), 1e-5)


class LearningTest(tf.test.TestCase):
    def test_finds_the_signs_of_a_linear_model(self) -> None:
        """All 2^6 weights enumerated: the posterior's probability of each sign, and predictions."""
        rng, n = np.random.default_rng(3), 40
        x = rng.normal(size=(n, 6)).astype("float32")
        signs = np.array([1.0, -1.0, -1.0, 1.0, -1.0, 1.0])
        y = (x @ signs + rng.normal(size=n)).astype("float32")[:, None]
        candidates = np.array(list(itertools.product((-1.0, 1.0), repeat=6)))
        log_joint = scipy.stats.norm.logpdf(y, x @ candidates.T).sum(axis=0)
        posterior = np.exp(log_joint - np.logaddexp.reduce(log_joint))
        prob = posterior @ (candidates > 0)
        self.assertAllEqual(prob > 0.5, signs > 0)

        keras.utils.set_random_seed(0)
        layer = BayesDense(
            1, num_data=n, prior="bernoulli", posterior="relaxed_bernoulli", use_bias=False
        )
        model = keras.Sequential([keras.Input((6,)), layer])
        model.compile(keras.optimizers.Adam(0.05), tfbdl.likelihoods.Normal(1.0))
        tfbdl.train(model, x, y, epochs=300, batch_size=n, verbose=0)
        self.assertAllEqual(layer.kernel.mean.numpy().ravel() > 0, signs > 0)
        self.assertAllClose(layer.kernel.prob.numpy().ravel(), prob, atol=0.05)

        outputs = tfbdl.predict(model, x, 50, seed=1, return_samples=True).outputs[..., 0]
        distance = np.abs(outputs[:, None] - (x @ candidates.T).T).max(axis=-1)
        self.assertAllClose(distance.min(axis=1), np.zeros(50), atol=1e-5)


if __name__ == "__main__":
    tf.test.main()
