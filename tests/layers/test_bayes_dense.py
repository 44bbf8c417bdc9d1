"""BayesDense: the mean function, the loss KL / N, its start, training, precision, arguments."""

from typing import Any

import keras
import numpy as np
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp
from absl.testing import parameterized

from tfbdl import kl_term, posteriors, priors
from tfbdl.layers import BayesDense, VariationalDropout

tfd = tfp.distributions
ESTIMATORS = ("reparameterization", "local_reparameterization", "flipout")
RNG = np.random.default_rng(0)
N = 20
X = RNG.normal(size=(N, 3)).astype("float32")
Y = RNG.normal(size=(N, 2)).astype("float32")


def kl_by_tfp(layer: Any, scale: float = 1.0, bias_scale: Any = None) -> Any:
    """KL of kernel and bias, in float64."""
    total = 0.0
    for q, gamma in ((layer.kernel, scale), (layer.bias, bias_scale or scale)):
        if q is not None:
            mu, rho = (v.numpy().astype(np.float64) for v in (q.mu, q.rho))
            p = tfd.Normal(tf.constant(0.0, tf.float64), gamma)
            kl = tfd.kl_divergence(tfd.Normal(mu, np.logaddexp(0, rho)), p)
            total += float(tf.reduce_sum(kl))
    return total


def model_of(*layers: Any) -> keras.Model:
    return keras.Sequential([keras.Input((3,)), *layers])


class MeanTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(
        activation=("relu", None, "softplus"), use_bias=(True, False), estimator=ESTIMATORS
    )
    def test_inference_is_the_dense_layer_at_the_mean(
        self, activation: Any, use_bias: bool, estimator: str
    ) -> None:
        layer = BayesDense(
            4,
            activation,
            num_data=10,
            use_bias=use_bias,
            estimator=estimator,
            bias_initializer=keras.initializers.RandomNormal(seed=1),
        )
        y = layer(X)
        dense = keras.layers.Dense(4, activation, use_bias=use_bias)
        dense.build((None, 3))
        dense.set_weights([q.mu.numpy() for q in (layer.kernel, layer.bias) if q is not None])
        self.assertAllClose(y, dense(X), 1e-6)
        self.assertAllClose(layer(X, training=False), dense(X), 1e-6)
        sequence = tf.reshape(X, (5, 4, 3))
        self.assertAllClose(layer(sequence), dense(sequence), 1e-6)
        self.assertEqual(layer.compute_output_shape((None, 7, 3)), (None, 7, 4))


class LossTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(
        estimator=ESTIMATORS, training=(True, False), use_bias=(True, False), scale=(0.3, 2.0)
    )
    def test_is_kl_over_num_data(
        self, estimator: str, training: Any, use_bias: bool, scale: Any
    ) -> None:
        layer = BayesDense(4, num_data=37, prior=scale, estimator=estimator, use_bias=use_bias)
        layer(X, training=training)
        kl = kl_by_tfp(layer, scale)
        self.assertLen(layer.losses, 1)
        self.assertAllClose(layer.losses[0], kl / 37, 1e-5)
        self.assertAllClose(layer.kl_term.terms["kl"], kl, 1e-5)

    def test_kernel_and_bias_may_have_priors_of_their_own(self) -> None:
        layer = BayesDense(4, num_data=10, prior=0.5, bias_prior=3.0)
        layer(X)
        self.assertAllClose(layer.losses[0], kl_by_tfp(layer, 0.5, 3.0) / 10, 1e-5)

    def test_point_bias_with_a_flat_prior_costs_nothing(self) -> None:
        with_bias, without = (
            BayesDense(4, num_data=10, bias_posterior="point", bias_prior="flat"),
            BayesDense(4, num_data=10, use_bias=False),
        )
        with_bias(X), without(X)
        without.kernel.set_weights(with_bias.kernel.get_weights())
        without(X)
        self.assertAllClose(with_bias.losses, without.losses, 1e-6)

    def test_sums_over_layers(self) -> None:
        layers = [BayesDense(4, num_data=37), BayesDense(3, num_data=37), BayesDense(2, num_data=9)]
        model = model_of(*layers)
        model(X, training=True)
        expected = [kl_by_tfp(layer) / n for layer, n in zip(layers, (37, 37, 9), strict=True)]
        self.assertAllClose(model.losses, expected, 1e-5)
        model(X, training=True)
        self.assertAllClose(sum(model.losses), sum(expected), 1e-5)

    @parameterized.product(
        estimator=sorted(set(ESTIMATORS) - {"local_reparameterization"}), training=(True, False)
    )
    def test_a_shared_layer_costs_once(self, estimator: str, training: Any) -> None:
        """Weights used twice are one posterior: its KL counts once."""
        layer = BayesDense(3, num_data=10, estimator=estimator)
        inputs = keras.Input((3,))
        model = keras.Model(inputs, layer(layer(inputs)))
        model(X, training=training)
        self.assertAllClose(sum(model.losses), kl_by_tfp(layer) / 10, 1e-5)
        self.assertAllClose(kl_term.terms(model)["kl"], kl_by_tfp(layer), 1e-5)

    @parameterized.parameters(1, 7, N)
    def test_is_the_same_for_every_batch_size(self, batch_size: Any) -> None:
        """Under `fit`, at each step, the last and smaller batch included."""
        layer = BayesDense(2, num_data=N, seed=1)
        model = model_of(layer)
        model.compile(keras.optimizers.SGD(0.0), loss=lambda y, p: 0.0 * tf.reduce_mean(p, -1))
        losses = []
        each = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: losses.append(logs["loss"])
        )
        model.fit(X, Y, batch_size=batch_size, epochs=2, verbose=0, callbacks=[each])
        self.assertLen(losses, 2 * -(-N // batch_size))
        self.assertAllClose(losses, np.full(len(losses), kl_by_tfp(layer) / N), 1e-5)

    def test_evaluate_is_the_loss_at_the_mean_plus_kl_over_num_data(self) -> None:
        layer = BayesDense(2, num_data=N)
        model = model_of(layer)
        model.compile(loss="mse")
        mse = np.mean((layer(X).numpy() - Y) ** 2)
        expected = mse + kl_by_tfp(layer) / N
        self.assertAllClose(model.evaluate(X, Y, batch_size=7, verbose=0), expected, 1e-5)

    @parameterized.parameters(*ESTIMATORS)
    def test_one_step_of_fit(self, estimator: str) -> None:
        """A hand-written step with the same noise gives the same; N sets the pull of the prior."""
        layer = BayesDense(2, num_data=N, seed=1, prior=0.5, estimator=estimator)
        model = model_of(layer)
        start = [v.numpy() for v in layer.trainable_variables]
        noise = layer.seed.state.numpy()
        with tf.GradientTape() as tape:
            y = layer(X, training=True)
            loss = tf.reduce_mean(tf.square(y - Y)) + kl_from(layer, 0.5) / N
        gradients = tape.gradient(loss, [v.value for v in layer.trainable_variables])
        layer.seed.state.assign(noise)
        model.compile(
            keras.optimizers.SGD(0.1), "mse", jit_compile=estimator != "reparameterization"
        )
        history = model.fit(X, Y, batch_size=N, verbose=0, shuffle=False).history
        self.assertAllClose(history["loss"], [loss], 1e-5)
        for v, before, gradient in zip(layer.trainable_variables, start, gradients, strict=True):
            self.assertAllClose(v.value, before - 0.1 * gradient, 1e-4, 1e-5)


def kl_from(layer: Any, scale: Any) -> Any:
    """The KL as a function of the variables, for gradients."""
    p = tfd.Normal(0.0, scale)
    return sum(
        tf.reduce_sum(tfd.kl_divergence(tfd.Normal(q.mu.value, tf.nn.softplus(q.rho.value)), p))
        for q in (layer.kernel, layer.bias)
    )


class StartTest(tf.test.TestCase):
    def test_as_in_the_slides(self) -> None:
        layer = BayesDense(300, num_data=10)
        layer.build((None, 100))
        limit = np.sqrt(6 / (100 + 300))
        for v, low, high in ((layer.kernel.mu, -limit, limit), (layer.kernel.rho, -3.0, -2.0)):
            uniform = scipy.stats.uniform(low, high - low)
            self.assertGreater(
                scipy.stats.kstest(v.numpy().ravel(), uniform.cdf, method="asymp").pvalue, 1e-5
            )
        self.assertAllEqual(layer.bias.mu.value, np.zeros(300))
        rho = layer.bias.rho.numpy()
        self.assertGreater(
            scipy.stats.kstest(rho, scipy.stats.uniform(-3, 1).cdf, method="asymp").pvalue, 1e-5
        )

    def test_set_random_seed_decides_weights_and_noise(self) -> None:
        outputs = []
        for _ in range(2):
            keras.utils.set_random_seed(4)
            model = model_of(BayesDense(4, num_data=10), BayesDense(2, num_data=10))
            outputs.append([model(X, training=True).numpy() for _ in range(3)])
        self.assertAllEqual(outputs[0], outputs[1])
        self.assertGreater(np.abs(outputs[0][0] - outputs[0][1]).max(), 1e-3)

    def test_layers_without_a_seed_have_independent_noise(self) -> None:
        first, second = (
            BayesDense(100, num_data=10, kernel_initializer="zeros", use_bias=False)
            for _ in range(2)
        )
        a, b = (layer(tf.eye(100), training=True).numpy().ravel() for layer in (first, second))
        self.assertLess(abs(np.corrcoef(a, b)[0, 1]), 5 / 100)

    def test_kernel_and_bias_have_independent_noise(self) -> None:
        layer = BayesDense(5000, num_data=10, kernel_initializer="zeros")
        y = layer(tf.constant([[0.0], [1.0]]), training=True).numpy()
        b, w = y[0], y[1] - y[0]
        self.assertLess(abs(np.corrcoef(b, w)[0, 1]), 5 / np.sqrt(5000))


class TrainingTest(tf.test.TestCase):
    def test_finds_the_exact_posterior_of_a_linear_model(self) -> None:
        """y = w x + noise of variance 1, w ~ N(0, 1): the posterior is known in closed form."""
        n = 50
        x = np.random.default_rng(3).normal(size=(n, 1)).astype("float32")
        y = 1.5 * x + np.random.default_rng(4).normal(size=(n, 1)).astype("float32")
        precision = 1 + np.sum(x**2)
        layer = BayesDense(1, num_data=n, use_bias=False, seed=0)
        model = keras.Sequential([keras.Input((1,)), layer])
        steps = 2000
        model.compile(
            keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.05, steps)),
            loss=lambda y, p: 0.5 * tf.reduce_sum(tf.square(y - p), -1),
            jit_compile=True,
        )
        data = tf.data.Dataset.from_tensors((x, y)).repeat(steps)
        model.fit(data, verbose=0, shuffle=False)
        stddev = 1 / np.sqrt(precision)
        mean = np.sum(x * y) / precision
        self.assertLess(abs(float(layer.kernel.mean[0, 0]) - mean), 0.25 * stddev)
        self.assertAllClose(layer.kernel.stddev[0, 0], stddev, 0.1)


class PrecisionTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.product(
        policy=("mixed_float16", "mixed_bfloat16"), estimator=ESTIMATORS, training=(True, False)
    )
    def test_mixed(self, policy: str, estimator: str, training: Any) -> None:
        """Half outputs near the float32 ones; KL, rho, gradients in float32."""
        wide, half = (
            BayesDense(4, num_data=10, seed=1, estimator=estimator, dtype=p)
            for p in ("float32", policy)
        )
        wide(X), half(X)
        half.set_weights(wide.get_weights())
        expected = wide(X, training=training)
        with tf.GradientTape() as tape:
            y = half(X, training=training)
            loss = tf.reduce_sum(tf.cast(y, tf.float32)) + half.losses[0]
        gradients = tape.gradient(loss, [v.value for v in half.trainable_variables])
        self.assertEqual(y.dtype, policy.removeprefix("mixed_"))
        tolerance = 5e-3 if policy == "mixed_float16" else 5e-2
        self.assertAllClose(tf.cast(y, tf.float32), expected, tolerance, tolerance)
        self.assertEqual(half.losses[0].dtype, tf.float32)
        self.assertAllClose(half.losses, wide.losses, 1e-6)
        for v, gradient in zip(half.trainable_variables, gradients, strict=True):
            self.assertEqual(v.dtype, "float32")
            self.assertEqual(gradient.dtype, tf.float32)
            self.assertTrue(np.all(np.isfinite(gradient)))

    @parameterized.parameters(*ESTIMATORS)
    def test_large_inputs_in_float16(self, estimator: str) -> None:
        """x^2 overflows float16 beyond 256."""
        layer = BayesDense(4, num_data=10, estimator=estimator, dtype="mixed_float16")
        y = layer(np.full((2, 3), 1000.0, "float32"), training=True)
        self.assertTrue(np.all(np.isfinite(y)))

    @parameterized.parameters(*ESTIMATORS)
    def test_float64(self, estimator: str) -> None:
        layer = BayesDense(4, num_data=10, estimator=estimator, dtype="float64")
        y = layer(X.astype("float64"), training=True)
        self.assertEqual(y.dtype, tf.float64)
        self.assertAllClose(layer.losses[0], kl_by_tfp(layer) / 10, 1e-12)


class ArgumentsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(BayesDense, VariationalDropout)
    def test_num_data_is_required(self, layer: Any) -> None:
        with self.assertRaisesRegex(TypeError, "num_data"):
            layer(3)

    @parameterized.product(
        layer=(BayesDense, VariationalDropout), num_data=(0, -5, 100.0, True, None, "all")
    )
    def test_num_data_is_checked(self, layer: Any, num_data: int) -> None:
        with self.assertRaisesRegex(ValueError, "^num_data=.* must be a positive integer"):
            layer(3, num_data=num_data)

    @parameterized.parameters(0, -1, 2.0, None, "3", True)
    def test_units_is_checked(self, units: int) -> None:
        with self.assertRaisesRegex(ValueError, "^units=.* must be a positive integer$"):
            BayesDense(units, num_data=10)

    def test_units_may_be_a_numpy_integer(self) -> None:
        self.assertEqual(BayesDense(np.int64(3), num_data=10).get_config()["units"], 3)

    @parameterized.parameters(
        ("estimator", "flip", "reparameterization"),
        ("prior", "gauss", "normal"),
        ("bias_prior", "gauss", "normal"),
        ("posterior", "full", "mean_field"),
        ("bias_posterior", "full", "mean_field"),
    )
    def test_unknown_names_list_the_known_ones(self, argument: Any, name: str, known: Any) -> None:
        with self.assertRaisesRegex(
            ValueError, f"^{argument}='{name}' is unknown; choose .*{known}"
        ):
            BayesDense(3, num_data=10, **{argument: name})

    def test_prior_and_posterior_must_go_together(self) -> None:
        with self.assertRaisesRegex(ValueError, "^prior=Normal does not go with multiplicative"):
            BayesDense(3, num_data=10, posterior="multiplicative")

    def test_objects(self) -> None:
        layer = BayesDense(
            3,
            num_data=10,
            prior=priors.Normal(0.5),
            posterior=posteriors.MeanFieldNormal(keras.initializers.Constant(-4.0)),
        )
        layer(X)
        self.assertAllEqual(layer.kernel.rho.value, np.full((3, 3), -4.0))
        self.assertAllClose(layer.losses[0], kl_by_tfp(layer, 0.5) / 10, 1e-5)

    def test_input_must_have_a_known_last_dimension(self) -> None:
        with self.assertRaisesRegex(ValueError, "known last dimension"):
            BayesDense(3, num_data=10).build((None, None))

    def test_input_of_another_width_is_refused(self) -> None:
        layer = BayesDense(3, num_data=10)
        layer(X)
        with self.assertRaisesRegex(ValueError, "incompatible"):
            layer(X[:, :2])


if __name__ == "__main__":
    tf.test.main()
