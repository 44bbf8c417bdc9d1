"""What all priors with unknown scales share: the bound, its parts, its variables."""

import json
from typing import Any

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized
from prior_checks import SAMPLES, PriorChecks

from tfbdl import priors
from tfbdl.layers import BayesDense

SHAPE = (3, 4)


def inverse_gamma(shape: Any, rate: Any) -> Any:
    p = scipy.stats.invgamma(shape, scale=rate)
    return lambda s: p.logpdf(s**2) + np.log(2 * s)


def half_cauchy(scale: Any) -> Any:
    return scipy.stats.halfcauchy(scale=scale).logpdf


def index(groups: Any) -> Any:
    """The group of each weight in a tensor of SHAPE, so that s[index] are all scales."""
    row, column = np.indices(SHAPE)
    return {
        "weight": 4 * row + column,
        "input": row,
        "output": column,
        "layer": 0 * row,
        2: column // 2,
    }[groups]


GROUPS = ("weight", "input", "output", "layer", 2)
FAMILIES = {
    "inverse_gamma_scale": (
        lambda groups: priors.InverseGammaScale(4.0, 0.5, groups, dtype="float64"),
        lambda groups: [(groups, inverse_gamma(2.0, 0.5))],
    ),
    "ard": (
        lambda groups: priors.ARD(2.0, 1.5, groups, dtype="float64"),
        lambda groups: [(groups, inverse_gamma(2.0, 1.5))],
    ),
    "horseshoe": (
        lambda groups: priors.Horseshoe(0.3, groups, dtype="float64"),
        lambda groups: [(groups, half_cauchy(1.0)), ("layer", half_cauchy(0.3))],
    ),
}

NAMES = tuple(FAMILIES)


def make(family: Any, groups: str = "output") -> Any:
    """A prior of `family` over a weight of SHAPE, away from its start; and its hyperpriors."""
    prior = FAMILIES[family][0](groups)
    prior.attach(SHAPE)
    rng = np.random.default_rng(0)
    for variable in prior.trainable_variables:
        variable.assign(variable + rng.normal(0, 0.3, variable.shape))
    return prior, FAMILIES[family][1](groups)


def scales(prior: Any) -> Any:
    """(m, v) of q(log s) for each factor of the scale, from the variables in their order."""
    values = [np.ravel(v.numpy()) for v in prior.trainable_variables]
    return [(m, np.logaddexp(0, rho)) for m, rho in zip(values[::2], values[1::2], strict=True)]


class BoundTest(PriorChecks, tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(family=NAMES, groups=GROUPS)
    def test_by_brute_force(self, family: Any, groups: Any) -> None:
        """E[log q(w) q(s) - log p(w | s) p(s)] over samples of all weights and scales."""
        prior, hyperpriors = make(family, groups)
        rng = np.random.default_rng(1)
        mu, sigma = rng.normal(size=SHAPE), np.exp(rng.normal(-1, 0.5, SHAPE))
        q = scipy.stats.norm(mu, sigma)
        w = q.rvs((SAMPLES, *SHAPE), random_state=2)
        of_weights, of_scales = q.logpdf(w).sum(axis=(1, 2)), np.zeros(SAMPLES)
        log_s = np.zeros_like(w)
        for (m, v), (of, log_p) in zip(scales(prior), hyperpriors, strict=True):
            u = rng.normal(m, v, (SAMPLES, len(m)))
            # The density of s is that of log s divided by s.
            of_scales += (scipy.stats.norm(m, v).logpdf(u) - u - log_p(np.exp(u))).sum(axis=1)
            log_s += u[:, index(of)]
        of_weights -= scipy.stats.norm(0, np.exp(log_s)).logpdf(w).sum(axis=(1, 2))
        exact = prior.kl_from_normal(tf.constant(mu), tf.constant(sigma))
        self.assert_mean(of_scales, prior.kl())
        self.assert_mean(of_weights, exact)
        self.assert_mean(of_weights + of_scales, exact + prior.kl())

    @parameterized.product(family=NAMES, groups=GROUPS)
    def test_log_prob(self, family: Any, groups: Any) -> None:
        """E_q(s)[log N(w; 0, s^2)], where s is log-normal: by its moments."""
        prior, hyperpriors = make(family, groups)
        w = np.random.default_rng(1).normal(size=SHAPE)
        mean, variance = np.zeros(SHAPE), np.zeros(SHAPE)
        for (m, v), (of, _) in zip(scales(prior), hyperpriors, strict=True):
            mean, variance = mean + m[index(of)], variance + v[index(of)] ** 2
        precision = scipy.stats.lognorm(2 * np.sqrt(variance), scale=np.exp(-2 * mean)).mean()
        expected = -0.5 * w**2 * precision - mean - 0.5 * np.log(2 * np.pi)
        self.assertAllClose(prior.log_prob(tf.constant(w)), expected, 1e-10)
        self.assertAllClose(np.broadcast_to(prior.scale, SHAPE), np.exp(mean), 1e-5)
        in_float32 = prior.log_prob(tf.constant(w, tf.float32))
        self.assertEqual(in_float32.dtype, tf.float32)
        self.assertAllClose(in_float32, expected, 1e-5, 1e-5)

    @parameterized.product(family=NAMES, groups=("weight", "layer"))
    def test_gradients(self, family: Any, groups: Any) -> None:
        """Gradients of the whole bound in every variable, against differences, also under XLA."""
        prior, _ = make(family, groups)
        rng = np.random.default_rng(1)
        mu, sigma = tf.constant(rng.normal(size=SHAPE)), tf.constant(rng.uniform(0.1, 1, SHAPE))
        variables = prior.trainable_variables

        def bound() -> Any:
            return prior.kl_from_normal(mu, sigma) + prior.kl()

        def gradients() -> Any:
            with tf.GradientTape() as tape:
                total = bound()
            return tape.gradient(total, [v.value for v in variables])

        got = gradients()
        compiled = tf.function(gradients, jit_compile=True)()
        for variable, gradient, of_xla in zip(variables, got, compiled, strict=True):
            self.assertAllClose(of_xla, gradient, 1e-10, 1e-12)
            before, h = variable.numpy(), 1e-5
            for at in np.ndindex(*before.shape):
                ends = []
                for step in (h, -h):
                    moved = before.copy()
                    moved[at] += step
                    variable.assign(moved)
                    ends.append(float(bound()))
                self.assertAllClose(gradient[at], (ends[0] - ends[1]) / (2 * h), 1e-6, 1e-6)
            variable.assign(before)

    def test_exact_optimum(self) -> None:
        """The optimum of q(s) for a fixed q(w): the inverse gamma has it in closed form.

        With a group of n weights, sum of second moments S, and s^2 ~ InverseGamma(a, b):
        v^2 = 1 / (2 (n + 2 a)) and exp(2 m - 2 v^2) = (S + 2 b) / (n + 2 a).
        """
        prior, _ = make("ard", "input")
        mu, sigma = np.array([[2.0], [0.1], [0.0]]) * np.ones(SHAPE), np.full(SHAPE, 0.2)
        optimizer = keras.optimizers.Adam(0.02)

        @tf.function(jit_compile=True)
        def step() -> None:
            with tf.GradientTape() as tape:
                cost = prior.kl_from_normal(tf.constant(mu), tf.constant(sigma)) + prior.kl()
            values = [v.value for v in prior.trainable_variables]
            optimizer.apply(tape.gradient(cost, values), prior.trainable_variables)

        optimizer.build(prior.trainable_variables)
        for _ in range(1500):
            step()
        v2 = 1 / (2 * (4 + 2 * 2.0))
        mean_square = (np.sum(mu**2 + sigma**2, axis=1) + 2 * 1.5) / (4 + 2 * 2.0)
        (m, v), *_ = scales(prior)
        self.assertAllClose(v**2, np.full(3, v2), 1e-3)
        self.assertAllClose(m, 0.5 * np.log(mean_square) + v2, 1e-3, 1e-3)


class SampleTest(PriorChecks, tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(family=NAMES, groups=("input", "output", "layer", 2))
    def test_groups_share_their_scale(self, family: Any, groups: Any) -> None:
        """Weights in units of their group's spread are normal; spreads of groups differ."""
        prior, shape = FAMILIES[family][0](groups), (400, 500)
        w = np.asarray(prior.sample(tf.constant(123, tf.int64), shape), np.float64)
        together = {
            "input": w,
            "output": w.T,
            "layer": w.reshape(1, -1),
            2: np.stack([w[:, :250].ravel(), w[:, 250:].ravel()]),
        }[groups]
        scale = np.sqrt(np.mean(together**2, axis=1))
        e = np.ravel(together / scale[:, np.newaxis])
        p_value = scipy.stats.kstest(e, scipy.stats.norm.cdf, method="asymp").pvalue
        self.assertGreater(p_value, 1e-5)
        self.assertEqual(len(np.unique(scale)), len(scale))

    @parameterized.parameters(*NAMES)
    def test_is_from_the_prior_and_not_from_q(self, family: Any) -> None:
        moved, _ = make(family, "weight")
        fresh = FAMILIES[family][0]("weight")
        key = tf.constant(123, tf.int64)
        self.assertAllEqual(moved.sample(key, (50, 4)), fresh.sample(key, (50, 4)))


class LayerTest(tf.test.TestCase, parameterized.TestCase):
    X = np.random.default_rng(0).normal(size=(6, 3)).astype("float32")

    @parameterized.parameters(*NAMES)
    def test_kernel_has_the_scales_and_bias_a_normal(self, family: Any) -> None:
        layer = BayesDense(4, num_data=7, prior=family)
        layer(self.X, training=True)
        self.assertIs(type(layer.bias_prior), priors.Normal)
        self.assertAllEqual(layer.bias_prior.scale, 1.0)
        parts = (
            layer.prior.kl_from_normal(layer.kernel.mean, layer.kernel.stddev),
            layer.prior.kl(),
            priors.Normal(1.0).kl_from_normal(layer.bias.mean, layer.bias.stddev),
        )
        self.assertAllClose(sum(layer.losses), tf.add_n(parts) / 7, 1e-5)
        self.assertGreater(float(parts[1]), 0.0)

    @parameterized.parameters(*NAMES)
    def test_one_shape_for_each_object(self, family: Any) -> None:
        prior = priors.get(family)
        BayesDense(4, num_data=7, prior=prior).build((None, 3))
        BayesDense(4, num_data=7, prior=prior).build((None, 3))
        message = r"^kernel of .*: prior=\w+ holds the scales .* shape \(3, 4\); .*\(5, 4\) a prior"
        with self.assertRaisesRegex(ValueError, message):
            BayesDense(4, num_data=7, prior=prior).build((None, 5))

    def test_a_bias_without_such_groups(self) -> None:
        layer = BayesDense(4, num_data=7, bias_prior="ard")
        with self.assertRaisesRegex(ValueError, r"^bias of .*: groups='input' .* shape \(4,\)"):
            layer.build((None, 3))
        BayesDense(4, num_data=7, bias_prior="horseshoe")(self.X)

    @parameterized.parameters(*NAMES)
    def test_may_be_frozen(self, family: Any) -> None:
        prior = type(priors.get(family))(trainable=False)
        layer = BayesDense(4, num_data=7, prior=prior)
        layer.build((None, 3))
        self.assertLen(layer.trainable_variables, 4)
        self.assertEmpty(prior.trainable_variables)
        again = priors.get(keras.saving.serialize_keras_object(prior))
        self.assertFalse(again.trainable)

    @parameterized.product(family=NAMES, groups=GROUPS)
    def test_config(self, family: Any, groups: Any) -> None:
        """It does not hold the shape, so that a copy may govern another weight."""
        prior, _ = make(family, groups)
        config = json.loads(json.dumps(keras.saving.serialize_keras_object(prior)))
        again = priors.get(config)
        self.assertEqual(again.get_config(), prior.get_config())
        again.attach((8, 6))
        self.assertLen(again.trainable_variables, len(prior.trainable_variables))

    @parameterized.product(
        family=NAMES, policy=("mixed_float16", "mixed_bfloat16", "float32", "float64")
    )
    def test_precision(self, family: Any, policy: str) -> None:
        keras.config.set_dtype_policy(policy)
        try:
            layer = BayesDense(4, num_data=7, prior=family)
            layer(self.X, training=True)
        finally:
            keras.config.set_dtype_policy("float32")
        expected = "float64" if policy == "float64" else "float32"
        self.assertEqual({v.dtype for v in layer.prior.variables}, {expected})
        self.assertTrue(np.isfinite(float(layer.losses[0])))


if __name__ == "__main__":
    tf.test.main()
