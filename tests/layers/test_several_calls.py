"""Layers that are called several times in a forward pass: one w governs all of them."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

from tfbdl import layers as bayes

X = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
LAYERS = {
    "reparameterization": lambda: bayes.BayesDense(2, num_data=10),
    "per_example": lambda: bayes.BayesDense(2, num_data=10, estimator="per_example"),
    "flipout": lambda: bayes.BayesDense(2, num_data=10, estimator="flipout"),
    "convolution": lambda: bayes.BayesConv1D(2, 1, num_data=10),
    "lstm": lambda: bayes.BayesLSTM(2, num_data=10),
    "embedding": lambda: bayes.BayesEmbedding(4, 2, num_data=10),
}


def twice(layer: Any, shape: tuple[int, ...] = (3,)) -> keras.Model:
    """Both outputs of a tower on two inputs."""
    inputs = [keras.Input(shape), keras.Input(shape)]
    return keras.Model(inputs, [layer(x) for x in inputs])


class SeveralCallsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*LAYERS)
    def test_one_sample_in_a_pass(self, name: str) -> None:
        x = X[:, np.newaxis] if name in ("convolution", "lstm") else np.abs(X).astype("int32")
        model = twice(LAYERS[name](), x.shape[1:])
        for call in (model, tf.function(model)):
            first, second = call([x, x], training=True)
            self.assertAllEqual(first, second)
            self.assertNotAllClose(first, call([x, x], training=True)[0])

    def test_variance_of_a_sum(self) -> None:
        """x1 w + x2 w has the variance (x1 + x2)^2 sigma^2, not (x1^2 + x2^2) sigma^2."""
        layer = bayes.BayesDense(1, num_data=10, use_bias=False, estimator="per_example", seed=1)
        model, num = twice(layer, (1,)), 20_000
        first, second = model([np.ones((num, 1)), np.full((num, 1), 2.0)], training=True)
        expected = 9.0 * float(layer.kernel.stddev[0, 0]) ** 2
        actual = np.var(first + second)
        self.assertNear(actual, expected, 4 * expected * np.sqrt(2 / num))

    def test_bound(self) -> None:
        """The mean loss of passes is the exact -ELBO / N of y ~ N(x1 w + x2 w, 1)."""
        layer = bayes.BayesDense(1, num_data=4, use_bias=False, seed=2)
        model = twice(layer, (1,))
        x1, x2, y = (np.array(v, "float32")[:, None] for v in ([1, 2, 0, 1], [1, 0, 2, 3], [1] * 4))

        @tf.function
        def loss() -> tf.Tensor:
            errors = y - tf.add_n(model([x1, x2], training=True))
            return tf.reduce_mean(0.5 * errors**2) + tf.add_n(model.losses)

        losses = np.array([loss() for _ in range(1500)])
        mu, sigma = float(layer.kernel.mean[0, 0]), float(layer.kernel.stddev[0, 0])
        kl = 0.5 * (mu**2 + sigma**2 - 1) - np.log(sigma)
        x = x1 + x2
        expected = np.mean(0.5 * ((y - x * mu) ** 2 + (x * sigma) ** 2)) + kl / 4
        self.assertNear(losses.mean(), expected, 4 * losses.std() / np.sqrt(len(losses)))

    def test_outputs_that_are_drawn_share_no_weights(self) -> None:
        layer = bayes.BayesDense(2, num_data=10, estimator="local_reparameterization", name="tower")
        model = twice(layer)
        model([X, X], training=False)
        with self.assertRaisesRegex(ValueError, "layer='tower' is called twice.*use 'flipout'"):
            model([X, X], training=True)

    def test_calls_inside_other_graphs(self) -> None:
        """A key of a branch cannot be used outside of it, where the layer draws anew."""
        layer = bayes.BayesDense(2, num_data=10)
        layer.build((None, 3))

        class Branches(keras.layers.Layer):
            def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
                y = tf.cond(tf.reduce_sum(x) > 0, lambda: layer(x), lambda: layer(-x))
                return (
                    y,
                    layer(x),
                    tf.cond(tf.reduce_sum(x) > 0, lambda: layer(x), lambda: -x[:, 1:]),
                )

        _, outside, inside = tf.function(Branches())(tf.abs(X), training=True)
        self.assertAllEqual(outside, inside)


if __name__ == "__main__":
    tf.test.main()
