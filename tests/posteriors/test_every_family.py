"""What holds for every family: its law, both answers at once, gradients, precision, config."""

from typing import Any

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized
from posterior_families import CONTINUOUS, FAMILIES, KEY, NORMAL, SHAPE, keys, law, make, samples

from tfbdl import posteriors, priors

NUM = 20_000
SHAPES = {"matrix": (3, 4), "column": (3, 1), "bias": (4,), "scalar": (1,), "filter": (2, 1, 2, 2)}


class LawTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(family=tuple(CONTINUOUS), shape=tuple(SHAPES))
    def test_moments_and_density(self, family: Any, shape: Any) -> None:
        """The weight as a whole, near and far from its mean."""
        q = make(family, shape=SHAPES[shape])
        p = law(q)
        self.assertAllClose(np.ravel(q.mean), p.mean, 1e-12)
        self.assertAllClose(np.ravel(q.stddev), np.sqrt(np.diag(p.covariance)), 1e-10)
        self.assertEqual((q.mean.shape, q.stddev.shape), (SHAPES[shape], SHAPES[shape]))
        rng = np.random.default_rng(1)
        for spread in (0.1, 1.0, 30.0):
            w = p.mean + spread * np.sqrt(np.diag(p.covariance)) * rng.normal(size=len(p.mean))
            got = tf.reduce_sum(q.log_prob(tf.constant(w.reshape(SHAPES[shape]))))
            self.assertAllClose(got, p.logpdf(w), 1e-9)

    @parameterized.parameters(*CONTINUOUS)
    def test_samples(self, family: Any) -> None:
        """Mean, covariance, and each marginal."""
        q = make(family)
        p, w = law(q), samples(q, NUM)
        deviation = w - p.mean
        error = np.sqrt(np.diag(p.covariance) / NUM)
        self.assertLess(np.max(np.abs(deviation.mean(axis=0)) / error), 5)
        products = deviation[:, :, None] * deviation[:, None, :]
        error = products.std(axis=0) / np.sqrt(NUM)
        self.assertLess(np.max(np.abs(products.mean(axis=0) - p.covariance) / error), 5)
        for column, marginal in zip(w.T, p.marginals, strict=True):
            result = scipy.stats.kstest(column, marginal.cdf, method="asymp")
            self.assertGreater(result.pvalue, 1e-5)

    @parameterized.parameters(*NORMAL)
    def test_samples_are_jointly_normal(self, family: Any) -> None:
        """(w - mu)^T Sigma^-1 (w - mu) is chi-square with D degrees of freedom."""
        q = make(family)
        p = law(q)
        deviation = samples(q, NUM) - p.mean
        distance = np.sum(deviation * np.linalg.solve(p.covariance, deviation.T).T, axis=1)
        chi2 = scipy.stats.chi2(len(p.mean))
        self.assertGreater(scipy.stats.kstest(distance, chi2.cdf, method="asymp").pvalue, 1e-5)

    @parameterized.parameters(*FAMILIES)
    def test_keys_decide_the_sample(self, family: Any) -> None:
        q = make(family)
        self.assertAllEqual(q.sample(KEY), q.sample(KEY))
        once, again = (q.sample(key) for key in keys(2))
        self.assertEqual(bool(np.all(once == again)), family == "point")


class BothAtOnceTest(tf.test.TestCase, parameterized.TestCase):
    """`sample_and_kl` against `sample` and `kl`; binary weights have a test of their own."""

    ALL = tuple(family for family in FAMILIES if family != "relaxed_bernoulli")

    @parameterized.product(family=ALL, exact=(True, False))
    def test_values(self, family: Any, exact: Any) -> None:
        """Eager, in a graph and compiled."""
        q = make(family, exact=exact)
        expected = (q.sample(KEY), q.kl(KEY))
        tolerance = 1e-6 if family == "prior" else 1e-9  # priors are drawn in float32
        for compute in (
            q.sample_and_kl,
            tf.function(q.sample_and_kl),
            tf.function(q.sample_and_kl, jit_compile=True),
        ):
            self.assertAllClose(compute(KEY), expected, tolerance, tolerance)

    @parameterized.product(family=ALL, exact=(True, False))
    def test_gradients(self, family: Any, exact: Any) -> None:
        """Gradients of both at once, of each on its own, and by differences of the loss."""
        q = make(family, exact=exact)
        c = tf.constant(np.random.default_rng(1).normal(size=SHAPE))

        def loss(w: Any, kl: Any) -> Any:
            return tf.reduce_sum(c * w) + 0.3 * kl

        def gradients(compute: Any) -> Any:
            with tf.GradientTape() as tape:
                value = loss(*compute(KEY))
            return tape.gradient(value, [v.value for v in q.trainable_variables])

        got = gradients(q.sample_and_kl)
        self.assertAllClose(got, gradients(lambda key: (q.sample(key), q.kl(key))), 1e-9, 1e-9)
        compiled = tf.function(lambda: gradients(q.sample_and_kl), jit_compile=True)
        self.assertAllClose(got, compiled(), 1e-9, 1e-9)
        both = tf.function(lambda: loss(*q.sample_and_kl(KEY)))
        for variable, gradient in zip(q.trainable_variables, got, strict=True):
            slopes = differences(both, variable)
            self.assertAllClose(gradient, slopes, 1e-5, 1e-5, variable.name)


class VariablesTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(
        family=tuple(FAMILIES), policy=("mixed_float16", "mixed_bfloat16", "float32", "float64")
    )
    def test_parameters_keep_their_precision(self, family: Any, policy: str) -> None:
        q = make(family, dtype=policy)
        expected = "float64" if policy == "float64" else "float32"
        for dtype in {v.dtype for v in q.variables}:
            self.assertEqual(dtype, expected)
        w, kl = q.sample_and_kl(KEY)
        for answer in (w, kl, q.sample(KEY), q.mean, q.stddev, q.log_prob(q.sample(KEY))):
            self.assertEqual(answer.dtype, expected)

    @parameterized.parameters(*FAMILIES)
    def test_float32_is_near_float64(self, family: Any) -> None:
        """Sampled noise has a resolution of 2^-23 there, so only what is not sampled is equal."""
        narrow, wide = (make(family, dtype=dtype) for dtype in ("float32", "float64"))
        for a, b in zip(narrow.variables, wide.variables, strict=True):
            b.assign(tf.cast(a.value, tf.float64))
        w = wide.sample(KEY)
        self.assertAllClose(narrow.mean, wide.mean, 1e-5, 1e-6)
        self.assertAllClose(narrow.kl(KEY), wide.kl(KEY), 1e-4, 1e-4)
        log_probs = [tf.reduce_sum(q.log_prob(tf.cast(w, q.mean.dtype))) for q in (narrow, wide)]
        self.assertAllClose(*log_probs, 1e-4, 1e-4)

    @parameterized.parameters(*FAMILIES)
    def test_a_template_makes_posteriors_of_their_own(self, family: Any) -> None:
        template, prior = posteriors.get(family), priors.get(FAMILIES[family])
        owner, start = keras.layers.Layer(), keras.initializers.Constant(0.5)
        a, b = (template.create(owner, name, SHAPE, start, prior) for name in ("a", "b"))
        self.assertEqual([a.name, b.name], ["a", "b"])
        before = [v.numpy() for v in b.variables]
        for variable in a.variables:
            variable.assign(variable + 1.0)
        for variable, value in zip(b.variables, before, strict=True):
            self.assertAllEqual(variable.value, value)
        self.assertEmpty(template.weights)

    @parameterized.parameters(*(family for family in FAMILIES if family != "prior"))
    def test_means_start_at_the_initializer_of_the_owner(self, family: Any) -> None:
        start, prior = keras.initializers.Constant(0.25), priors.get(FAMILIES[family])
        q = posteriors.get(family).create(keras.layers.Layer(), "w", SHAPE, start, prior)
        self.assertAllClose(q.mean, tf.fill(SHAPE, 0.25), 1e-6)

    @parameterized.parameters(*NORMAL, "logistic", "laplace")
    def test_scales_start_as_in_the_slides(self, family: Any) -> None:
        """Softplus of uniform in [-3, -2], at least nearly; or where they are told to."""
        start, prior = keras.initializers.Zeros(), priors.get(1.0)
        q = posteriors.get(family).create(keras.layers.Layer(), "w", (30, 40), start, prior)
        low, high = np.logaddexp(0, -3.0), np.logaddexp(0, -2.0)
        sigma = np.unique(np.round(np.ravel(q.stddev), 6))
        self.assertBetween(sigma.min(), low - 1e-6, low + 0.02)
        self.assertBetween(sigma.max(), high - 0.02, high + 0.004)
        kind: Any = type(q)
        told = kind(rho_initializer="ones").create(keras.layers.Layer(), "w", SHAPE, start, prior)
        self.assertAllClose(told.stddev, np.full(SHAPE, np.logaddexp(0, 1.0)), 1e-3)

    @parameterized.parameters(*FAMILIES)
    def test_config(self, family: Any) -> None:
        template = posteriors.get(family)
        again = posteriors.get(keras.saving.serialize_keras_object(template))
        self.assertIs(type(again), type(template))
        self.assertEqual(again.get_config(), template.get_config())

    def test_unknown_name_lists_the_known_ones(self) -> None:
        known = ", ".join(sorted(FAMILIES))
        for wrong in ("gaussian", None, 3):
            with self.assertRaisesRegex(ValueError, f"^posterior={wrong!r} .*: {known}$"):
                posteriors.get(wrong)


def differences(loss: Any, variable: Any, h: float = 1e-5) -> Any:
    """Slopes of `loss` in each element of `variable`, by central differences."""
    start = variable.numpy()
    slopes = np.zeros(start.shape)
    for index in np.ndindex(start.shape):
        ends = []
        for sign in (1.0, -1.0):
            moved = start.copy()
            moved[index] += sign * h
            variable.assign(moved)
            ends.append(float(loss()))
        slopes[index] = (ends[0] - ends[1]) / (2 * h)
    variable.assign(start)
    return slopes


if __name__ == "__main__":
    tf.test.main()
