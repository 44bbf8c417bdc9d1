"""The horseshoe: its marginal density, its law, and the sparsity that it is for."""

import math
from typing import Any

import keras
import numpy as np
import scipy.integrate
import scipy.special
import scipy.stats
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl import likelihoods, priors, random
from tfbdl.layers import BayesDense
from tfbdl.priors.horseshoe import log_exp_e1


class MarginalTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(tau=(0.01, 1.0, 7.0), w=(1e-6, -0.003, 0.3, -2.0, 40.0))
    def test_by_integration(self, tau: Any, w: Any) -> None:
        """N(w; 0, tau^2 lambda^2) C+(lambda; 0, 1) over log lambda."""

        def joint(u: Any) -> Any:
            normal = scipy.stats.norm(0, tau * np.exp(u)).pdf(w)
            return normal * scipy.stats.halfcauchy.pdf(np.exp(u)) * np.exp(u)

        centre = math.log(abs(w) / tau)
        ends = centre - 6, max(centre, 0) + 35
        marginal, _ = scipy.integrate.quad(joint, *ends, points=[centre, 0.0], epsabs=0, limit=200)
        got = priors.Horseshoe().marginal_log_prob(tf.constant(w, tf.float64), tau)
        self.assertAllClose(got, np.log(marginal), 1e-7, 1e-7)

    def test_exponential_integral(self) -> None:
        """Against SciPy's E1 where it does not underflow, else 1/z - 1/z^2 + 2/z^3 - ..."""
        z = np.logspace(-30, 12, 300)
        series = sum((-1) ** k * scipy.special.factorial(k) / z ** (k + 1) for k in range(5))
        small = np.minimum(z, 300)
        expected = np.where(
            z < 300, np.log(scipy.special.exp1(small)) + small, np.log(np.where(z < 300, 1, series))
        )
        self.assertAllClose(log_exp_e1(tf.constant(np.log(z))), expected, 1e-9, 1e-10)
        in_float32 = log_exp_e1(tf.constant(np.log(z), tf.float32))
        self.assertAllClose(in_float32, expected, 3e-6, 3e-6)

    @parameterized.parameters((tf.float64, 300), (tf.float32, 30))
    def test_to_the_end_of_the_numbers(self, dtype: Any, exponent: Any) -> None:
        """A density that falls off as 2 / (sqrt(2 pi^3) w^2), where w^2 has no number any more."""
        w = tf.constant([10.0 ** (exponent // 3), 10.0**exponent], dtype)
        expected = math.log(2.0 / math.sqrt(2.0 * math.pi**3)) - 2.0 * np.log(w.numpy())
        with tf.GradientTape() as tape:
            tape.watch(w)
            log_prob = priors.Horseshoe().marginal_log_prob(w)
        self.assertAllClose(log_prob, expected, 1e-6)
        self.assertAllClose(w * tape.gradient(log_prob, w), [-2.0, -2.0], 1e-5)

    def test_what_is_taken_as_weights(self) -> None:
        expected = priors.Horseshoe().marginal_log_prob(tf.constant([1.0, 2.0]))
        self.assertAllClose(priors.Horseshoe().marginal_log_prob([1, 2]), expected)
        for wrong in (dict[str, Any](), "0", [math.nan], None):
            with self.assertRaisesRegex(ValueError, "^w"):
                priors.Horseshoe().marginal_log_prob(wrong)

    @parameterized.parameters((tf.float64, 1e-8), (tf.float32, 1e-4))
    def test_gradient(self, dtype: Any, digits: Any) -> None:
        """w / tau^2 (1 - 1 / (z e^z E1(z))) by hand, which tends to -2 / w: bounded influence."""
        tau, w = 0.5, np.array([-15.0, -0.7, -0.01, 1e-3, 0.4, 2.0])
        z = 0.5 * (w / tau) ** 2
        by_hand = w / tau**2 * (1 - 1 / (z * np.exp(z) * scipy.special.exp1(z)))
        x = tf.constant(np.concatenate([w, [1e4, -1e8, 1e15]]), dtype)
        expected = np.concatenate([by_hand, [-2e-4, 2e-8, -2e-15]])

        def slope(x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                log_prob = priors.Horseshoe().marginal_log_prob(x, tau)
            return tape.gradient(log_prob, x)

        self.assertAllClose(slope(x), expected, max(digits, 1e-7), 1e-30)
        self.assertAllClose(tf.function(slope, jit_compile=True)(x), slope(x), digits)

    def test_is_a_density(self) -> None:
        """It integrates to 1, the pole at 0 included; its default tau is the prior's scale."""

        u, step = np.linspace(-40, 40, 4001, retstep=True)
        log_prob = priors.Horseshoe(0.3).marginal_log_prob(tf.constant(np.exp(u)))
        total = 2 * np.sum(np.exp(log_prob + u)) * step
        self.assertAllClose(total, 1.0, 1e-6)

    @parameterized.parameters(0.0, -1.0, math.nan, None, "small")
    def test_scales_are_checked(self, wrong: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^scale=.* must be a positive number"):
            priors.Horseshoe(wrong)
        if wrong is not None:
            with self.assertRaisesRegex(ValueError, "^tau=.* must be a positive number"):
                priors.Horseshoe().marginal_log_prob(tf.ones([1]), wrong)


class SampleTest(tf.test.TestCase):
    RNG = np.random.default_rng(0)

    def simulated(self, tau: Any, size: Any) -> Any:
        """Draws by NumPy: tau lambda e."""
        return tau * np.abs(self.RNG.standard_cauchy(size)) * self.RNG.normal(size=size)

    def test_law_over_tensors(self) -> None:
        """One weight of each of many tensors: tau differs."""
        prior, keys = priors.Horseshoe(0.3), random.split(tf.constant(1, tf.int64), 20_000)
        w = tf.vectorized_map(lambda key: prior.sample(key, (1,)), keys)
        tau = 0.3 * np.abs(self.RNG.standard_cauchy(200_000))
        test = scipy.stats.ks_2samp(np.ravel(w), self.simulated(tau, 200_000), method="asymp")
        self.assertGreater(test.pvalue, 1e-5)

    def test_law_within_a_tensor(self) -> None:
        """All weights share tau: in units of their median they are a horseshoe with tau = 1."""
        w = np.ravel(priors.Horseshoe().sample(tf.constant(123, tf.int64), (400, 500)))
        other = self.simulated(1.0, 200_000)
        test = scipy.stats.ks_2samp(*(a / np.median(np.abs(a)) for a in (w, other)), method="asymp")
        self.assertGreater(test.pvalue, 1e-5)


class SparsityTest(tf.test.TestCase):
    """Linear regression on 20 inputs with weights 4, -4, 4, 0, 0, ...; noise of scale 3."""

    NUM_DATA, RELEVANT = 60, 3

    def weights(self, prior: Any) -> Any:
        """Posterior means of the weights, and those of least squares."""
        keras.utils.set_random_seed(0)
        rng = np.random.default_rng(0)
        x = rng.normal(size=(self.NUM_DATA, 20)).astype("float32")
        w = np.array([4.0, -4.0, 4.0] + 17 * [0.0])
        y = (x @ w + rng.normal(0, 3, self.NUM_DATA)).astype("float32")[:, np.newaxis]
        layer = BayesDense(
            1,
            num_data=self.NUM_DATA,
            prior=prior,
            use_bias=False,
            estimator="local_reparameterization",
        )
        model = keras.Sequential([keras.Input((20,)), layer])
        steps = 1000
        rate = keras.optimizers.schedules.CosineDecay(0.05, steps)
        model.compile(keras.optimizers.Adam(rate), likelihoods.Normal(3.0))
        tfbdl.train(model, x, y, epochs=steps, batch_size=self.NUM_DATA, verbose=0)
        return np.ravel(layer.kernel.mean), np.ravel(np.linalg.lstsq(x, y, rcond=None)[0]), layer

    def test_shrinks_noise_more_and_signals_less_than_a_normal(self) -> None:
        """A small scale of tau does not pull all weights to zero before they have seen the data."""
        horseshoe, least_squares, layer = self.weights(priors.Horseshoe(0.01))
        normal, _, _ = self.weights(priors.Normal(1.0))
        signal, noise = slice(self.RELEVANT), slice(self.RELEVANT, None)
        self.assertTrue(np.all(np.abs(horseshoe[signal]) > np.abs(normal[signal])))
        size = [np.abs(w[noise]) for w in (horseshoe, normal, least_squares)]
        self.assertLess(np.median(size[0]), 0.5 * np.median(size[1]))
        self.assertLess(np.linalg.norm(size[0]), 0.8 * np.linalg.norm(size[1]))
        self.assertLess(np.linalg.norm(size[1]), np.linalg.norm(size[2]))
        scale = np.ravel(layer.prior.scale)
        self.assertGreater(scale[signal].min(), 3 * np.median(scale[noise]))


if __name__ == "__main__":
    tf.test.main()
