"""ConcreteDropout: the law of its masks, its regulariser in two conventions, and what it learns."""

import itertools
from typing import Any

import keras
import numpy as np
import scipy.integrate
import scipy.optimize
import scipy.special
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
from absl.testing import parameterized

from tfbdl import random
from tfbdl.draws import make_draw
from tfbdl.layers import BayesDense, ConcreteDropout

tfd = tfp.distributions
KEY = tf.constant(123, tf.int64)
NUM = 200_000
KEEPS = (0.1, 0.5, 0.9)
TEMPERATURES = (0.01, 0.1, 2 / 3)


def logit(p: Any) -> Any:
    return np.log(p) - np.log1p(-p)


def masks(keep: Any, temperature: Any, num: Any = NUM) -> Any:
    logits = tf.constant(logit(keep), tf.float32)
    return random.relaxed_bernoulli(KEY, logits, temperature, [num]).numpy().astype(np.float64)


def expectation(f: Any, keep: Any, temperature: Any, points: int = 80_001) -> Any:
    """E[f(mask)] by integration over the logistic noise."""
    v = np.linspace(-40, 40, points)
    mask = scipy.special.expit((logit(keep) + v) / temperature)
    return scipy.integrate.simpson(scipy.stats.logistic.pdf(v) * f(mask), x=v)


def identity(units: int, **kwargs: Any) -> Any:
    """A layer whose output for x = 1 is its mask over the keep probability."""
    dense = keras.layers.Dense(units, kernel_initializer="identity", use_bias=False)
    return ConcreteDropout(dense, num_data=10, seed=1, **kwargs)


class MaskTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(keep=KEEPS, temperature=TEMPERATURES)
    def test_law_is_that_of_tfp(self, keep: Any, temperature: Any) -> None:
        """P(a < mask <= b) is the integral of RelaxedBernoulli's own density, in float64.

        The integral runs over u with x = sigmoid(u), where the density has no poles.
        """
        mask = masks(keep, temperature)
        law = tfd.RelaxedBernoulli(tf.constant(temperature, tf.float64), probs=keep)
        edges = (1e-30, 1e-6, 0.01, 0.3, 0.5, 0.9, 1 - 1e-5)
        for a, b in itertools.pairwise(edges):
            u = np.linspace(logit(a), logit(b), 10_001)
            log_jacobian = -np.logaddexp(0, u) - np.logaddexp(0, -u)
            density = np.exp(law.log_prob(scipy.special.expit(u)).numpy() + log_jacobian)
            probability = scipy.integrate.simpson(density, x=u)
            error = np.sqrt(probability * (1 - probability) / NUM)
            share = np.mean((a < mask) & (mask <= b))
            self.assertLess(abs(share - probability), 5 * error)

    @parameterized.product(keep=KEEPS, temperature=TEMPERATURES)
    def test_samples_of_tfp(self, keep: Any, temperature: Any) -> None:
        """Kolmogorov-Smirnov, with both ends cut where float32 rounds to 0 and 1."""
        law = tfd.RelaxedBernoulli(tf.constant(temperature, tf.float64), probs=keep)
        theirs = law.sample(NUM, seed=(1, 2)).numpy()
        cut = (1e-6, 1 - 1e-6)
        result = scipy.stats.ks_2samp(
            np.clip(masks(keep, temperature), *cut), np.clip(theirs, *cut), method="asymp"
        )
        self.assertGreater(result.pvalue, 1e-5)

    @parameterized.product(keep=KEEPS, temperature=TEMPERATURES)
    def test_mean_is_keep_up_to_a_known_bias(self, keep: Any, temperature: Any) -> None:
        """The bias of the relaxation: below 1e-5 at temperature 0.01, 2e-3 at 0.1."""
        mask = masks(keep, temperature)
        mean = expectation(lambda m: m, keep, temperature)
        self.assertLess(abs(mask.mean() - mean), 5 * mask.std() / np.sqrt(NUM))
        square = expectation(np.square, keep, temperature)
        self.assertLess(abs(np.mean(mask**2) - square), 5 * np.std(mask**2) / np.sqrt(NUM))
        if temperature < 0.5:
            self.assertLess(abs(mean - keep), {0.01: 2e-5, 0.1: 2e-3}[temperature])

    @parameterized.parameters(*TEMPERATURES)
    def test_finite_at_extreme_logits(self, temperature: Any) -> None:
        logits = tf.constant([-1e4, -100.0, -20.0, 0.0, 20.0, 100.0, 1e4])
        with tf.GradientTape() as tape:
            tape.watch(logits)
            mask = random.relaxed_bernoulli(KEY, logits, temperature, [1000, 7])
        self.assertTrue(np.all(np.isfinite(mask)))
        self.assertTrue(np.all(np.isfinite(tape.gradient(mask, logits))))
        self.assertAllClose(tf.reduce_mean(mask, 0)[:2], [0.0, 0.0])
        self.assertAllClose(tf.reduce_mean(mask, 0)[-2:], [1.0, 1.0])

    def test_gradient_is_that_of_the_mean(self) -> None:
        """d E[mask] / d logit, by differences of the integral."""
        logits = tf.fill([NUM], tf.constant(0.7))
        with tf.GradientTape() as tape:
            tape.watch(logits)
            mask = random.relaxed_bernoulli(KEY, logits, 0.1, [NUM])
        gradient = tape.gradient(mask, logits).numpy().astype(np.float64)
        h = 1e-3
        above, below = (
            expectation(lambda m: m, scipy.special.expit(0.7 + s), 0.1) for s in (h, -h)
        )
        error = gradient.std() / np.sqrt(NUM)
        self.assertLess(abs(gradient.mean() - (above - below) / (2 * h)), 5 * error)


class CallTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(True, False)
    def test_training_masks_inputs(self, per_unit: Any) -> None:
        """One mask per example and unit, over keep; units and examples independent."""
        n, units = 20_000, 4
        layer = identity(units, per_unit=per_unit, temperature=0.1, initial_rate=0.3)
        layer.build((None, units))
        keeps = np.array([0.2, 0.5, 0.7, 0.9]) if per_unit else np.full(units, 0.7)
        layer.scaled_logit.assign(logit(keeps) if per_unit else logit(0.7))
        y = layer(tf.ones((n, units)), training=True).numpy() * keeps
        for column, keep in zip(y.T, keeps, strict=True):
            both = (np.clip(v, 1e-6, 1 - 1e-5) for v in (column, masks(keep, 0.1)))
            p = scipy.stats.ks_2samp(*both, method="asymp").pvalue
            self.assertGreater(p, 1e-5)
        off = np.corrcoef(y.T)[~np.eye(units, dtype=bool)]
        self.assertLess(np.abs(off).max(), 5 / np.sqrt(n))
        centred = y - y.mean(axis=0)
        rows = np.corrcoef(centred[1:].ravel(), centred[:-1].ravel())[0, 1]
        self.assertLess(abs(rows), 5 / np.sqrt(n * units))

    def test_inference_has_no_mask(self) -> None:
        dense = keras.layers.Dense(3, "relu")
        layer = ConcreteDropout(dense, num_data=10)
        x = tf.random.stateless_normal((5, 4), (0, 0))
        y = layer(x)
        self.assertAllClose(y, dense(x))
        self.assertAllClose(layer(x, training=False), dense(x))

    @parameterized.parameters(
        (keras.layers.Conv1D, (7, 3)),
        (keras.layers.Conv2D, (4, 5, 3)),
        (keras.layers.Dense, (3,)),
        (keras.layers.Dense, (7, 3)),
    )
    def test_masks_hold_for_whole_channels(self, wrapped: Any, shape: Any) -> None:
        """A kernel of size 1 that is the identity shows the mask; it is constant over space."""
        size = {} if wrapped is keras.layers.Dense else {"kernel_size": 1}
        inner = wrapped(3, use_bias=False, **size)
        layer = ConcreteDropout(inner, num_data=10, initial_rate=0.5, per_unit=True, seed=1)
        layer.build((None, *shape))
        inner.kernel.assign(tf.reshape(tf.eye(3), inner.kernel.shape))
        for drawn in (False, True):
            kwargs = {"draw": make_draw(0, 1)} if drawn else {"training": True}
            y = layer(tf.ones((200, *shape)), **kwargs).numpy()
            y = y.reshape(200, -1, 3)
            self.assertAllClose(y, np.repeat(y[:, :1], y.shape[1], axis=1), 1e-6)
            per_example = y[:, 0]
            if drawn:
                self.assertAllClose(per_example, np.repeat(per_example[:1], 200, axis=0))
            else:
                share = np.mean(per_example > 1.0, axis=0)
                self.assertLess(np.abs(share - 0.5).max(), 5 * 0.5 / np.sqrt(200))

    def test_draws_have_the_law_of_the_masks(self) -> None:
        layer = identity(2, initial_rate=0.3)
        layer.build((None, 2))
        drawn = tf.vectorized_map(
            lambda s: layer(tf.ones((1, 2)), draw=make_draw(1, s))[0], tf.range(10_000)
        )
        drawn = drawn.numpy().astype(np.float64)
        for column in drawn.T:
            both = (np.clip(v, 1e-6, 1 - 1e-5) for v in (0.7 * column, masks(0.7, 0.1)))
            p = scipy.stats.ks_2samp(*both, method="asymp").pvalue
            self.assertGreater(p, 1e-5)
        self.assertLess(abs(np.corrcoef(drawn.T)[0, 1]), 5 / 100)


class LearningTest(tf.test.TestCase, parameterized.TestCase):
    def test_3000_steps_at_temperature_001(self) -> None:
        """Finite in float32, where the gradients of TFP's sampler are NaN from step 1."""
        layer = ConcreteDropout(
            keras.layers.Dense(2),
            num_data=100,
            temperature=0.01,
            lengthscale=0.1,
            per_unit=True,
            logit_scale=10.0,
            seed=0,
        )
        rng = np.random.default_rng(0)
        x, y = (tf.constant(rng.normal(size=(16, d)), tf.float32) for d in (3, 2))
        layer(x)
        optimizer = keras.optimizers.Adam(0.01)
        optimizer.build(layer.trainable_variables)

        @tf.function(jit_compile=True)
        def train() -> Any:
            finite = tf.constant(True)
            for _ in tf.range(3000):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.square(layer(x, training=True) - y))
                    loss += tf.add_n(layer.losses)
                gradients = tape.gradient(loss, [v.value for v in layer.trainable_variables])
                optimizer.apply(gradients, layer.trainable_variables)
                for value in (loss, *gradients):
                    finite &= tf.reduce_all(tf.math.is_finite(value))
            return finite

        before = layer.keep_prob.numpy()
        self.assertTrue(train())
        self.assertGreater(np.abs(layer.keep_prob - before).max(), 0.05)

    def test_rates_of_a_linear_model_reach_their_optimum(self) -> None:
        """One unit carries the signal, one is pure noise: the first is kept, the second's rate is
        that of greatest entropy. The optimum of the expected loss, exact for a linear model with
        squared error, is found by SciPy.
        """
        n, temperature, lengthscale = 30, 0.1, 0.3
        rng = np.random.default_rng(0)
        x = rng.normal(size=(n, 2)).astype("float32")
        y = x[:, :1] + 0.5 * rng.normal(size=(n, 1)).astype("float32")
        layer = ConcreteDropout(
            keras.layers.Dense(1, use_bias=False),
            num_data=n,
            temperature=temperature,
            lengthscale=lengthscale,
            per_unit=True,
            logit_scale=10.0,
            seed=0,
        )
        layer.build((None, 2))
        optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.01, 4000))
        optimizer.build(layer.trainable_variables)
        many = np.tile(x, (20, 1)), np.tile(y, (20, 1))

        @tf.function(jit_compile=True)
        def train() -> None:
            for _ in tf.range(4000):
                with tf.GradientTape() as tape:
                    output = layer(many[0], training=True)
                    loss = 0.5 * tf.reduce_mean(tf.square(output - many[1])) / 0.25
                    loss += tf.add_n(layer.losses)
                gradients = tape.gradient(loss, [v.value for v in layer.trainable_variables])
                optimizer.apply(gradients, layer.trainable_variables)

        train()

        def objective(parameters: Any) -> Any:
            w, keep = parameters[:2], scipy.special.expit(parameters[2:])
            moments = [
                [expectation(f, k, temperature, 8001) for f in (lambda m: m, np.square)]
                for k in keep
            ]
            first, second = np.array(moments).T / keep ** np.array([[1], [2]])
            mean = x @ (w * first)
            variance = x**2 @ (w**2 * (second - first**2))
            nll = 0.5 * np.mean((mean - y[:, 0]) ** 2 + variance) / 0.25
            h = scipy.special.entr(keep) + scipy.special.entr(1 - keep)
            return nll + np.sum(lengthscale**2 / 2 * w**2 / keep - h) / n

        start = np.array([0.5, 0.1, 2.0, 1.0])
        best = scipy.optimize.minimize(objective, start, method="Nelder-Mead", tol=1e-5).x
        keep = scipy.special.expit(best[2:])
        self.assertAllClose(layer.keep_prob, keep, atol=0.05)
        self.assertGreater(float(layer.keep_prob[0]), 0.9)
        self.assertLess(float(layer.keep_prob[1]), 0.7)


class ArgumentsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(rate=(0.05, 0.5, 0.9), logit_scale=(1.0, 10.0), per_unit=(True, False))
    def test_initial_rate(self, rate: Any, logit_scale: Any, per_unit: Any) -> None:
        layer = identity(3, initial_rate=rate, logit_scale=logit_scale, per_unit=per_unit)
        layer.build((None, 3))
        self.assertAllClose(layer.keep_prob, np.full((3,) if per_unit else (), 1 - rate), 1e-5)
        self.assertAllClose(layer.keep_logit, np.full_like(layer.keep_prob, logit(1 - rate)), 1e-5)
        self.assertEqual(layer.scaled_logit.shape, (3,) if per_unit else ())

    @parameterized.parameters(0, -1, 10.0, True, None)
    def test_num_data_is_checked(self, num_data: int) -> None:
        with self.assertRaisesRegex(ValueError, "^num_data=.* must be a positive integer"):
            ConcreteDropout(keras.layers.Dense(2), num_data=num_data)
        with self.assertRaisesRegex(TypeError, "num_data"):
            ConcreteDropout(keras.layers.Dense(2))  # type: ignore[call-arg]

    @parameterized.parameters(
        *[("temperature", v) for v in (0, 0.0, -1.0, float("inf"), float("nan"))],
        *[("initial_rate", v) for v in (0, 1, -0.1, 1.1, float("nan"))],
        *[("lengthscale", v) for v in (-1e-3, float("inf"), float("nan"))],
        *[("logit_scale", v) for v in (0, -1.0, float("inf"), float("nan"))],
    )
    def test_ranges(self, name: str, value: Any) -> None:
        with self.assertRaisesRegex(ValueError, f"^{name}=.* must be [^\n]*$"):
            ConcreteDropout(keras.layers.Dense(2), num_data=10, **{name: value})

    def test_layer_must_have_a_kernel_over_its_inputs(self) -> None:
        x = tf.ones((2, 4, 4, 3))
        for wrapped in (
            keras.layers.ReLU(),
            keras.layers.BatchNormalization(),
            BayesDense(2, num_data=10),
        ):
            with self.assertRaisesRegex(ValueError, "^layer=.* has no kernel over its 3 input"):
                ConcreteDropout(wrapped, num_data=10).build(x.shape)

    def test_channels_first_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "channels_last"):
            ConcreteDropout(keras.layers.Conv2D(2, 1, data_format="channels_first"), num_data=10)

    def test_transposed_convolutions_have_their_inputs_on_the_last_axis(self) -> None:
        """Kernel (h, w, out, in): refused, or its units are taken from the right axis."""
        wrapped = keras.layers.Conv2DTranspose(3, 2)
        try:
            layer = ConcreteDropout(wrapped, num_data=10, per_unit=True, lengthscale=1.0)
            layer.build((None, 4, 4, 3))
        except ValueError:
            return
        layer.scaled_logit.assign(logit(np.array([0.2, 0.5, 0.9])))
        kernel = wrapped.kernel.numpy()
        norms = np.sum(kernel**2, axis=(0, 1, 2))
        self.assertAllClose(layer.weight_term(), np.sum(0.5 * norms / [0.2, 0.5, 0.9]), 1e-5)


if __name__ == "__main__":
    tf.test.main()
