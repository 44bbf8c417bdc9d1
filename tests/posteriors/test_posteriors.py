"""The families q(w): their law, their KL, their gradients, their variables."""

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
from absl.testing import parameterized

from tfbdl import posteriors, priors

tfd = tfp.distributions
KEY = tf.constant([1, 2, 3])
SHAPE = (3, 4)
KEYS = 20_000


def make(family, prior=1.0, shape=SHAPE, dtype="float64", **kwargs):
    """A posterior of `family` over a weight of `shape`, its parameters away from their start."""
    owner = keras.layers.Layer(dtype=dtype)
    rng = np.random.default_rng(0)
    q = posteriors.get(family).create(
        owner, "kernel", shape, keras.initializers.GlorotUniform(0), priors.get(prior), **kwargs
    )
    for variable in q.trainable_variables:
        variable.assign(variable + rng.normal(0, 0.3, shape))
    return q


def softplus(x):
    return np.logaddexp(0, x)


class EveryFamilyTest(tf.test.TestCase, parameterized.TestCase):
    FAMILIES = (("mean_field", 1.0), ("multiplicative", "log_uniform"), ("point", 1.0))

    @parameterized.parameters(*FAMILIES)
    def test_law(self, family, prior):
        """Mean, standard deviation, normality; elements independent of each other."""
        q = make(family, prior)
        i = tf.range(KEYS)
        keys = tf.stack([tf.ones_like(i), i, tf.zeros_like(i)], axis=1)
        w = tf.vectorized_map(q.sample, keys).numpy().reshape(KEYS, -1)
        mean, stddev = q.mean.numpy().ravel(), q.stddev.numpy().ravel()
        if family == "point":
            self.assertAllEqual(w, np.tile(mean, (KEYS, 1)))
            self.assertAllEqual(stddev, np.zeros(12))
            return
        e = (w - mean) / stddev
        for column in e.T:
            self.assertGreater(
                scipy.stats.kstest(column, scipy.stats.norm.cdf, method="asymp").pvalue, 1e-5
            )
        off = (e.T @ e / KEYS)[~np.eye(12, dtype=bool)]
        self.assertLess(np.abs(off).max(), 5 / np.sqrt(KEYS))

    @parameterized.parameters(*FAMILIES)
    def test_sample_and_kl_is_both_at_once(self, family, prior):
        """Eager and in a graph."""
        q = make(family, prior)
        expected = (q.sample(KEY), q.kl(KEY))
        self.assertAllClose(q.sample_and_kl(KEY), expected, 1e-12, 1e-12)
        self.assertAllClose(tf.function(q.sample_and_kl)(KEY), expected, 1e-12, 1e-12)

    @parameterized.parameters(*FAMILIES)
    def test_gradient_of_both_at_once(self, family, prior):
        q = make(family, prior)
        weights = tf.constant(np.random.default_rng(1).normal(size=SHAPE))

        def gradients(compute):
            with tf.GradientTape() as tape:
                w, kl = compute(KEY)
                loss = tf.reduce_sum(weights * w) + 0.3 * kl
            return tape.gradient(loss, [v.value for v in q.trainable_variables])

        expected = gradients(lambda k: (q.sample(k), q.kl(k)))
        self.assertAllClose(gradients(q.sample_and_kl), expected, 1e-12, 1e-12)
        self.assertAllClose(
            tf.function(lambda: gradients(q.sample_and_kl))(), expected, 1e-12, 1e-12
        )

    @parameterized.parameters(*FAMILIES)
    def test_a_template_makes_posteriors_of_their_own(self, family, prior):
        template = posteriors.get(family)
        owner, start = keras.layers.Layer(), keras.initializers.Constant(0.5)
        a, b = (
            template.create(owner, name, SHAPE, start, priors.get(prior)) for name in ("a", "b")
        )
        self.assertEqual([a.name, b.name], ["a", "b"])
        a.mu.assign(2.0 * a.mu)
        self.assertAllEqual(b.mu.value, tf.fill(SHAPE, 0.5))
        self.assertEmpty(template.weights)

    @parameterized.product(
        family=("mean_field", "multiplicative", "point"),
        policy=("mixed_float16", "mixed_bfloat16", "float32", "float64"),
    )
    def test_parameters_keep_their_precision(self, family, policy):
        prior = "log_uniform" if family == "multiplicative" else 1.0
        q = make(family, prior, dtype=policy)
        expected = "float64" if policy == "float64" else "float32"
        for dtype in {v.dtype for v in q.variables}:
            self.assertEqual(dtype, expected)
        w, kl = q.sample_and_kl(KEY)
        self.assertEqual((w.dtype, kl.dtype), (expected, expected))

    @parameterized.parameters(*FAMILIES)
    def test_config(self, family, prior):
        template = posteriors.get(family)
        config = keras.saving.serialize_keras_object(template)
        again = posteriors.get(config)
        self.assertIs(type(again), type(template))
        self.assertEqual(again.get_config(), template.get_config())

    def test_unknown_name_lists_the_known_ones(self):
        known = "mean_field, multiplicative, point"
        for wrong in ("gaussian", None, 3):
            with self.assertRaisesRegex(ValueError, f"^posterior={wrong!r} .*{known}"):
                posteriors.get(wrong)


class MeanFieldTest(tf.test.TestCase):
    def test_sigma_is_the_softplus_of_rho(self):
        q = make("mean_field")
        self.assertAllClose(q.stddev, softplus(q.rho.numpy()), 1e-12)
        self.assertAllEqual(q.mean, q.mu.value)

    def test_rho_starts_between_minus_3_and_minus_2(self):
        q = posteriors.MeanFieldNormal().create(
            keras.layers.Layer(), "w", (100, 100), keras.initializers.Zeros(), priors.get(1.0)
        )
        rho = q.rho.numpy().ravel()
        uniform = scipy.stats.uniform(-3, 1)
        self.assertGreater(scipy.stats.kstest(rho, uniform.cdf, method="asymp").pvalue, 1e-5)
        self.assertAllEqual(q.mu.value, tf.zeros((100, 100)))

    def test_rho_starts_differently_for_kernel_and_bias(self):
        template, owner = posteriors.MeanFieldNormal(), keras.layers.Layer()
        a, b = (
            template.create(owner, name, (50,), keras.initializers.Zeros(), priors.get(1.0))
            for name in ("a", "b")
        )
        self.assertLess(abs(np.corrcoef(a.rho.numpy(), b.rho.numpy())[0, 1]), 5 / np.sqrt(50))

    def test_rho_initializer(self):
        for given in ("ones", keras.initializers.Ones()):
            template = posteriors.MeanFieldNormal(given)
            again = posteriors.get(keras.saving.serialize_keras_object(template))
            for family in (template, again):
                q = family.create(
                    keras.layers.Layer(), "w", SHAPE, keras.initializers.Zeros(), priors.get(1.0)
                )
                self.assertAllEqual(q.rho.value, tf.ones(SHAPE))

    def test_kl(self):
        q = make("mean_field", prior=2.0)
        p = tfd.Normal(tf.constant(0.0, tf.float64), 2.0)
        expected = tf.reduce_sum(tfd.kl_divergence(tfd.Normal(q.mean, q.stddev), p))
        self.assertAllClose(q.kl(KEY), expected, 1e-12)

    def test_gradient_of_a_sample(self):
        """dw/dmu = 1 and dw/drho = e sigmoid(rho), with the e that made w."""
        q = make("mean_field")
        with tf.GradientTape() as tape:
            w = q.sample(KEY)
        mu, rho = q.mu.numpy(), q.rho.numpy()
        e = (w - mu) / softplus(rho)
        gradients = tape.gradient(w, (q.mu.value, q.rho.value))
        self.assertAllClose(gradients, (np.ones(SHAPE), e / (1 + np.exp(-rho))), 1e-10)


class MultiplicativeTest(tf.test.TestCase, parameterized.TestCase):
    def test_noise_is_in_proportion_to_the_mean(self):
        q = make("multiplicative", "log_uniform")
        alpha = np.exp(np.minimum(q.raw_log_alpha.numpy(), 0))
        self.assertAllClose(q.stddev**2, alpha * q.mu.numpy() ** 2, 1e-12)

    @parameterized.parameters(0.01, 0.25, 1.0)
    def test_initial_alpha(self, alpha):
        q = posteriors.MultiplicativeNormal(alpha).create(
            keras.layers.Layer(), "w", SHAPE, keras.initializers.Ones(), priors.LogUniform()
        )
        self.assertAllClose(tf.exp(q.log_alpha), tf.fill(SHAPE, alpha), 1e-5)

    @parameterized.parameters("kingma", "molchanov")
    def test_alpha_never_exceeds_one(self, approximation):
        q = make("multiplicative", priors.LogUniform(approximation))
        at_one = make("multiplicative", priors.LogUniform(approximation))
        q.raw_log_alpha.assign(tf.fill(SHAPE, tf.constant(5.0, tf.float64)))
        at_one.raw_log_alpha.assign(tf.zeros(SHAPE, tf.float64))
        self.assertAllClose(q.stddev, np.abs(q.mu.numpy()))
        self.assertAllClose(q.kl(KEY), at_one.kl(KEY), 1e-12)

    def test_alpha_comes_back_from_its_bound(self):
        """A weight whose noise costs likelihood must not be stuck at alpha = 1 for ever."""
        q = make("multiplicative", "log_uniform", dtype="float32")
        q.mu.assign(tf.ones(SHAPE))
        q.raw_log_alpha.assign(tf.fill(SHAPE, 0.5))
        optimizer = keras.optimizers.Adam(0.1)
        for step in range(100):
            with tf.GradientTape() as tape:
                noise = q.sample(tf.stack([0, step, 0])) - q.mean
                loss = 100.0 * tf.reduce_sum(tf.square(noise))
            gradient = tape.gradient(loss, q.raw_log_alpha.value)
            optimizer.apply([gradient], [q.raw_log_alpha])
        self.assertLess(np.exp(q.log_alpha).max(), 0.5)

    def test_kl_depends_on_alpha_alone(self):
        """At mu = 0 as well, where a bias starts."""
        prior = priors.LogUniform("kingma")
        q = make("multiplicative", prior)
        expected = prior.kl_from_log_alpha(q.log_alpha)
        self.assertAllClose(q.kl(KEY), expected, 1e-12)
        q.mu.assign(tf.zeros(SHAPE))
        self.assertAllClose(q.kl(KEY), expected, 1e-12)

    @parameterized.parameters(0.0, -0.1, 1.01, float("nan"))
    def test_initial_alpha_is_checked(self, alpha):
        with self.assertRaisesRegex(ValueError, r"^initial_alpha=.* \(0, 1\]$"):
            posteriors.MultiplicativeNormal(alpha)

    def test_prior_is_checked(self):
        with self.assertRaisesRegex(ValueError, "^prior=Normal .*'log_uniform'$"):
            posteriors.MultiplicativeNormal().check_prior(priors.Normal())


class PointTest(tf.test.TestCase):
    def test_kl_is_the_log_prior_up_to_a_constant(self):
        q = make("point", prior=0.5)
        expected = -np.sum(scipy.stats.norm.logpdf(q.mu.numpy(), scale=0.5))
        self.assertAllClose(q.kl(KEY), expected, 1e-12)

    def test_gradient_is_weight_decay(self):
        q = make("point", prior=0.5)
        with tf.GradientTape() as tape:
            kl = q.kl(KEY)
        self.assertAllClose(tape.gradient(kl, q.mu.value), q.mu.numpy() / 0.25, 1e-12)

    def test_flat_prior_pulls_nowhere(self):
        self.assertAllEqual(make("point", "flat").kl(KEY), 0.0)


if __name__ == "__main__":
    tf.test.main()
