"""What layers take in and give, however they are called."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.inference import Laplace
from tfbdl.likelihoods import Normal
from tfbdl.recording import recorded


class Scaled(keras.layers.Layer):
    """A layer of a user's own, whose arguments have names of their own."""

    def call(self, signal: tf.Tensor, *, factor: float = 1.0) -> tf.Tensor:
        return factor * signal


class RecordedTest(tf.test.TestCase):
    def test_arguments_by_name(self) -> None:
        x = tf.constant([[1.0, 2.0]])
        layer, dense = Scaled(), keras.layers.Dense(3, "relu")
        dense(x)
        with recorded([layer, dense]) as calls:
            layer(signal=x, factor=3.0)
            layer(x)
            y = dense(inputs=x)
        self.assertAllEqual([c.x.numpy().tolist() for c in calls], [x.numpy().tolist()] * 3)
        self.assertAllClose(calls[0].z, 3 * x)
        self.assertAllClose(calls[2].z, y)

    def test_before_the_activation(self) -> None:
        x = tf.constant([[1.0, 2.0]])
        dense = keras.layers.Dense(3, "relu")
        dense(x)
        with recorded([dense], before_activation=True) as calls:
            y = dense(x)
        self.assertAllClose(calls[0].z, x @ dense.kernel + dense.bias)
        self.assertAllClose(y, tf.nn.relu(calls[0].z))

    def test_queries_keys_and_values_by_name_with_a_mask(self) -> None:
        """As BERT and GPT-2 of keras_hub call attention."""
        attention = keras.layers.MultiHeadAttention(num_heads=2, key_dim=3)
        x = keras.random.normal((2, 4, 5), seed=0)
        mask = tf.constant([[[True] * 4] * 4] * 2)
        expected = attention(query=x, value=x, attention_mask=mask)
        with recorded([attention]) as calls:
            actual = attention(query=x, value=x, attention_mask=mask)
        self.assertAllClose(actual, expected)
        self.assertAllClose(calls[0].x, x)

    def test_other_threads_hear_nothing_and_change_nothing(self) -> None:
        """While one thread records, another calls and records the same layer."""
        x = tf.constant([[1.0, 2.0]])
        dense = keras.layers.Dense(3, "relu", kernel_initializer="ones", bias_initializer="ones")
        expected = dense(-x)
        heard: list[Any] = []

        class Meets(keras.layers.Layer):
            def call(self, x: tf.Tensor) -> tf.Tensor:
                other = threading.Thread(target=elsewhere)
                other.start()
                other.join()
                return dense(x)

        def elsewhere() -> None:
            heard.append(dense(-x))
            with recorded([dense], before_activation=True) as calls:
                heard.append(dense(-x))
            heard.append(calls[0].z)
            heard.append(inspect.signature(dense.call).parameters)

        with recorded([dense], before_activation=True) as calls:
            Meets()(-x)
            with recorded([dense]) as inner:
                dense(-x)
        self.assertLen(calls, 2)
        self.assertLen(inner, 1)
        self.assertAllClose(heard[0], expected)
        self.assertAllClose(heard[1], expected)
        self.assertAllClose(heard[2], [[-2.0] * 3])
        self.assertIn("inputs", heard[3])
        self.assertNotIn("call", vars(dense))
        self.assertIs(dense.activation, keras.activations.relu)

    def test_the_last_layer_behind_attention_by_name(self) -> None:
        """Its posterior is that of a Bayesian linear regression on its inputs."""
        keras.utils.set_random_seed(0)
        inputs = keras.Input((4, 5))
        attention = keras.layers.MultiHeadAttention(num_heads=2, key_dim=3)
        pooled = keras.layers.GlobalAveragePooling1D()(attention(query=inputs, value=inputs))
        model = keras.Model(inputs, keras.layers.Dense(1)(pooled))
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(20, 4, 5)).astype("float32"), rng.normal(size=(20, 1))
        posterior = Laplace(
            model, Normal(0.5), subset_of_weights="last_layer", hessian_structure="full"
        ).fit(x, y)
        phi = np.c_[keras.Model(inputs, pooled).predict(x, verbose=0), np.ones(20)]
        precision = phi.T @ phi / 0.25 + np.eye(6)
        draws = posterior.sample(20_000)[:, -6:]
        self.assertAllClose(np.cov(draws.T), np.linalg.inv(precision), rtol=0.1, atol=0.01)


if __name__ == "__main__":
    tf.test.main()
