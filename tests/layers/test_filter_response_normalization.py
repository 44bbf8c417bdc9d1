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
    def test_training_computes_the_same_values_and_gradients(self) -> None:
        x = tf.random.stateless_normal((2, 4, 5, 3), (0, 1))
        for activation in (None, "swish"):
            layer = FilterResponseNormalization(activation=activation)
            layer.build(x.shape)
            results = []
            for training in (False, True):
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    y = layer(x, training=training)
                    loss = tf.reduce_sum(y**2)
                results.append([y, *tape.gradient(loss, [x, *layer.trainable_variables])])
            for plain, compiled in zip(*results, strict=True):
                np.testing.assert_allclose(compiled, plain, rtol=1e-4, atol=1e-5)

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
