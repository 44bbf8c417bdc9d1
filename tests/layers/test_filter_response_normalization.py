from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl.testing import parameterized
from keras.src import testing

from tfbdl.layers import FilterResponseNormalization


class FilterResponseNormalizationTest(testing.TestCase):
    @parameterized.parameters((4, 5, 2), (2, 4, 3, 3), (2, 2, 3, 2, 2))
    def test_contract(self, *shape: Any) -> None:
        self.run_layer_test(
            FilterResponseNormalization,
            init_kwargs={"epsilon": 1e-3, "activation": "swish"},
            input_shape=shape,
            expected_output_shape=shape,
            expected_num_trainable_weights=3,
            expected_num_losses=0,
            supports_masking=False,
        )

    def test_equations_2_and_3_in_float64(self) -> None:
        x = np.random.default_rng(0).normal(1.0, 3.0, (2, 4, 5, 3))
        layer = FilterResponseNormalization(epsilon=0.1)
        layer.build(x.shape)
        gamma, beta, tau = (
            np.array([1.0, -2.0, 0.5]),
            np.array([0.0, 1.0, -1.0]),
            np.array([-np.inf, 0.5, 0.0]),
        )
        layer.set_weights([gamma, beta, tau])
        expected = np.empty_like(x)
        for n in range(2):
            for c in range(3):
                image = x[n, :, :, c]
                nu_squared = sum(v * v for v in image.ravel()) / image.size
                y = gamma[c] * image / np.sqrt(nu_squared + 0.1) + beta[c]
                expected[n, :, :, c] = np.maximum(y, tau[c])
        np.testing.assert_allclose(layer(x), expected, rtol=1e-5, atol=1e-6)

    @pytest.mark.xla
    @parameterized.product(activation=(None, "swish", "softmax"), training=(False, True))
    def test_gradients_are_those_of_the_equations_in_float64(
        self, activation: str | None, training: bool
    ) -> None:
        rng = np.random.default_rng(0)
        x, upstream = rng.normal(1.0, 3.0, (2, 2, 4, 5, 3))
        weights = [np.array(w) for w in ([1.0, -2.0, 0.5], [0.0, 1.0, -1.0], [-0.5, 0.5, 0.0])]
        layer = FilterResponseNormalization(epsilon=0.1, activation=activation)
        layer.build(x.shape)
        layer.set_weights(weights)
        variables = [tf.constant(t) for t in (x, *weights)]
        with tf.GradientTape() as tape:
            tape.watch(variables)
            inputs, gamma, beta, tau = variables
            nu_squared = tf.reduce_mean(inputs**2, [1, 2], keepdims=True)
            y = tf.maximum(gamma * inputs / tf.sqrt(nu_squared + 0.1) + beta, tau)
            expected = keras.activations.get(activation)(y)
        of_expected = tape.gradient(expected, variables, upstream)
        inputs = tf.constant(x, tf.float32)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layer(inputs, training=training)
        sources = [inputs, *layer.trainable_variables]
        gradients = tape.gradient(outputs, sources, tf.constant(upstream, tf.float32))
        for ours, theirs in zip((outputs, *gradients), (expected, *of_expected), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)

    @pytest.mark.xla
    @parameterized.parameters(False, True)
    def test_an_activation_with_weights(self, training: bool) -> None:
        x = tf.random.stateless_normal((2, 4, 5, 3), (0, 1))
        slopes = keras.layers.PReLU(alpha_initializer="ones", shared_axes=[1, 2])
        layer = FilterResponseNormalization(epsilon=0.1, activation=slopes)
        layer.build(x.shape)
        slopes.build(x.shape)
        slopes.alpha.assign(0.3 * slopes.alpha)
        layer.tau.assign([-1.0, -1.0, 0.2])
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = layer(x, training=training)
        with tf.GradientTape() as of_expected:
            of_expected.watch(x)
            y = x * tf.math.rsqrt(tf.reduce_mean(x**2, [1, 2], keepdims=True) + 0.1)
            z = tf.maximum(y * layer.gamma + layer.beta, layer.tau)
            expected = tf.maximum(z, 0.0) + slopes.alpha * tf.minimum(z, 0.0)
        sources, upstream = [x, *layer.trainable_variables], tf.math.sin(x)
        self.assertLen(sources, 5)
        ours = (outputs, *tape.gradient(outputs, sources, upstream))
        theirs = (expected, *of_expected.gradient(expected, sources, upstream))
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        self.assertGreater(float(tf.reduce_min(tf.abs(ours[-1][..., :2]))), 0.1)

    @pytest.mark.xla
    @parameterized.parameters(False, True)
    def test_forward_derivatives_in_float64(self, training: bool) -> None:
        x, v = (tf.random.stateless_normal((1, 3, 3, 2), (0, k), dtype="float64") for k in (1, 2))
        layer = FilterResponseNormalization(activation="tanh", dtype="float64")
        layer.build(x.shape)
        with tf.autodiff.ForwardAccumulator(x, v) as accumulator:
            y = layer(x, training=training)
        step = 1e-5
        expected = (layer(x + step * v) - layer(x - step * v)) / (2 * step)
        np.testing.assert_allclose(accumulator.jvp(y), expected, rtol=1e-6, atol=1e-8)

    @pytest.mark.xla
    @parameterized.parameters(False, True)
    def test_second_derivatives_in_float64(self, training: bool) -> None:
        rng = np.random.default_rng(0)
        x, v = (tf.constant(t) for t in rng.normal(1.0, 1.0, (2, 1, 3, 3, 2)))
        layer = FilterResponseNormalization(activation="tanh", dtype="float64")

        def gradient(x: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_sum(layer(x, training=training) ** 3)
            return tape.gradient(loss, x)

        with tf.GradientTape() as tape:
            tape.watch(x)
            along = tf.reduce_sum(gradient(x) * v)
        step = 1e-5
        expected = (gradient(x + step * v) - gradient(x - step * v)) / (2 * step)
        np.testing.assert_allclose(tape.gradient(along, x), expected, rtol=1e-6, atol=1e-8)

    @pytest.mark.xla
    @parameterized.product(training=(False, True), dtype=("float16", "bfloat16"))
    def test_squares_beyond_half_precision(self, training: bool, dtype: str) -> None:
        x = 1000.0 * tf.random.stateless_normal((2, 4, 5, 3), (0, 1))
        plain = FilterResponseNormalization(activation="swish")
        mixed = FilterResponseNormalization(activation="swish", dtype=f"mixed_{dtype}")
        y = mixed(x, training=training)
        self.assertEqual(y.dtype, dtype)
        np.testing.assert_allclose(tf.cast(y, tf.float32), plain(x), rtol=0.02, atol=0.02)

    def test_the_activation_comes_last(self) -> None:
        x = tf.random.stateless_normal((2, 4, 5, 3), (0, 1))
        fused, plain = FilterResponseNormalization(activation="tanh"), FilterResponseNormalization()
        np.testing.assert_allclose(fused(x), np.tanh(plain(x)), atol=1e-6)

    def test_an_example_does_not_see_the_others(self) -> None:
        x = tf.random.stateless_normal((5, 3, 3, 2), (0, 1))
        layer = FilterResponseNormalization()
        alone = tf.concat([layer(x[i : i + 1], training=True) for i in range(5)], 0)
        np.testing.assert_allclose(layer(x, training=True), alone, atol=1e-6)

    def test_zeros_have_finite_gradients(self) -> None:
        x = tf.zeros((1, 3, 3, 2))
        layer = FilterResponseNormalization()
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(layer(x))
        self.assertTrue(np.isfinite(tape.gradient(y, x)).all())

    def test_refusals(self) -> None:
        for epsilon in (0, -1.0, float("nan"), "small", True):
            with self.assertRaisesRegex(ValueError, "^epsilon=.* must be positive"):
                FilterResponseNormalization(epsilon)
        with self.assertRaisesRegex(ValueError, "min_ndim=3"):
            FilterResponseNormalization()(keras.ops.zeros((2, 3)))
