"""Layers of any class with distributions over weights that they hold."""

from __future__ import annotations

import pathlib
import tempfile
from typing import Any

import keras
import keras.layers as L
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl.draws import DrawnModel, make_draw
from tfbdl.layers import BayesDense, BayesWrapper, MCDropout

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 3)).astype("float32")
IMAGES = RNG.normal(size=(2, 6, 6, 3)).astype("float32")
DRAW = make_draw(3, 7)


@keras.saving.register_keras_serializable(package="tests")
class Counting(L.Layer):
    """Counts its calls, and has a loss of its own; one weight scales, the other shifts."""

    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(shape=(shape[-1],), initializer="ones", name="scale")
        self.shift = self.add_weight(shape=(shape[-1],), initializer="zeros", name="shift")
        self.calls = self.add_weight(shape=(), trainable=False, name="calls")
        self.built = True

    def call(self, x: tf.Tensor) -> tf.Tensor:
        self.calls.assign_add(1.0)
        y = self.scale * x + self.shift
        self.add_loss(tf.reduce_sum(y))
        return y


def made(layer: Any, shape: tuple[int, ...] = (3,), **arguments: Any) -> tuple[Any, keras.Model]:
    wrapper = BayesWrapper(layer, num_data=10, seed=1, **arguments)
    x = keras.Input(shape)
    return wrapper, keras.Model(x, wrapper(x))


def drawn(wrapper: BayesWrapper) -> dict[str, np.ndarray]:
    """The weights of a draw, by their names."""
    weights, _ = wrapper.weights_at(DRAW)
    return {q.name: np.asarray(w) for q, w in zip(wrapper.random_weights, weights, strict=True)}


class BayesWrapperTest(tf.test.TestCase, parameterized.TestCase):
    def test_is_the_dense_layer(self) -> None:
        """Means, draws, samples and the KL are those of `BayesDense` with this seed."""
        wrapper, model = made(L.Dense(4, "tanh"), prior=0.3, bias_prior=2.0)
        dense = BayesDense(4, "tanh", num_data=10, seed=1, prior=0.3, bias_prior=2.0)
        x = keras.Input((3,))
        other = keras.Model(x, dense(x))
        for q, p in zip(wrapper.random_weights, dense.random_weights, strict=True):
            q.mu.assign(RNG.normal(size=q.mu.shape))
            p.mu.assign(q.mu)
            p.rho.assign(q.rho)
        self.assertAllClose(model(X), other(X), 1e-6)
        self.assertAllClose(model.losses, other.losses, 1e-6)
        self.assertAllClose(*(DrawnModel(m)(X, draw=DRAW) for m in (model, other)), 1e-6)
        for _ in range(2):
            self.assertAllClose(*(m(X, training=True) for m in (model, other)), 1e-6)
        self.assertEqual(
            [v.path.split("/")[1:] for v in model.trainable_variables],
            [v.path.split("/")[1:] for v in other.trainable_variables],
        )

    def test_gradients(self) -> None:
        wrapper, model = made(L.Dense(4, "tanh"))
        dense = BayesDense(4, "tanh", num_data=10, seed=1)
        dense.build((None, 3))
        for q, p in zip(wrapper.random_weights, dense.random_weights, strict=True):
            p.mu.assign(q.mu)
            p.rho.assign(q.rho)

        def gradients(call: Any, layer: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(call(X, training=True) ** 2) + tf.add_n(layer.losses)
            return tape.gradient(loss, [v.value for v in layer.trainable_variables])

        self.assertAllClose(gradients(model, wrapper), gradients(dense, dense), 1e-5)

    def test_separable_convolution(self) -> None:
        layer = L.SeparableConv2D(4, 3, padding="same", activation="relu")
        wrapper, model = made(layer, IMAGES.shape[1:])
        w = drawn(wrapper)
        expected = keras.ops.separable_conv(
            IMAGES, w["depthwise_kernel"], w["pointwise_kernel"], padding="same"
        )
        actual = DrawnModel(model)(IMAGES, draw=DRAW)
        self.assertAllClose(actual, keras.ops.relu(expected + w["bias"]), 1e-5, 1e-5)

    def test_depthwise_convolution(self) -> None:
        wrapper, model = made(L.DepthwiseConv2D(3), IMAGES.shape[1:])
        w = drawn(wrapper)
        expected = keras.ops.depthwise_conv(IMAGES, w["kernel"]) + w["bias"]
        self.assertAllClose(DrawnModel(model)(IMAGES, draw=DRAW), expected, 1e-5, 1e-5)

    def test_tied_embedding(self) -> None:
        """One table there and back again: logits of all rows are E E^T."""
        wrapper = BayesWrapper(L.ReversibleEmbedding(4, 3), num_data=10, seed=1)
        ids = keras.Input((), dtype="int32")
        rows = wrapper(ids)
        model = keras.Model(ids, [rows, wrapper(rows, reverse=True)])
        for _ in range(2):
            table, logits = model(np.arange(4), training=True)
            self.assertAllClose(logits, table @ tf.transpose(table), 1e-5, 1e-5)
        self.assertNotAllClose(table, model(np.arange(4))[0])

    @parameterized.parameters(None, "int8")
    def test_factors_of_lora(self, mode: str | None) -> None:
        """x W + alpha / r x A B: saved and loaded, too, where Keras merges a layer's own."""
        layer = L.Dense(4, use_bias=False)
        layer.build((None, 3))
        if mode:
            layer.quantize(mode)
        frozen = layer(X)
        layer.enable_lora(2, 3.0)
        for v in (layer.lora_kernel_a, layer.lora_kernel_b):
            v.assign(RNG.normal(size=v.shape))
        trained = layer(X)
        wrapper, model = made(layer, weights=["lora_kernel_a", "lora_kernel_b"])
        self.assertAllClose(model(X), trained, 1e-5, 1e-5)
        w = drawn(wrapper)
        expected = frozen + 1.5 * X @ w["lora_kernel_a"] @ w["lora_kernel_b"]
        self.assertAllClose(DrawnModel(model)(X, draw=DRAW), expected, 1e-5, 1e-5)
        self.assertLen(model.trainable_variables, 4)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "m.keras"
            model.save(path)
            loaded = keras.models.load_model(path)
        self.assertAllClose(DrawnModel(loaded)(X, draw=DRAW), expected, 1e-5, 1e-5)

    def test_what_else_a_layer_does(self) -> None:
        """Weights that are left out are trained; state changes; losses are counted once."""
        wrapper, model = made(Counting(), weights=["scale"])
        layer = wrapper.layer
        before = float(layer.calls)
        outputs = model(X, training=True)
        self.assertEqual(float(layer.calls), before + 1)
        self.assertIn("shift", [v.name for v in model.trainable_variables])
        self.assertNotIn("scale", [v.name for v in model.trainable_variables])
        kl = float(wrapper.kl_term.terms["kl"]) / 10
        self.assertAllClose(sum(model.losses), kl + np.sum(outputs), 1e-5)

    def test_trainable(self) -> None:
        wrapper, model = made(L.Dense(2))
        model.trainable = False
        self.assertEmpty(model.trainable_variables)
        model.trainable = True
        self.assertEqual({v.name for v in model.trainable_variables}, {"mu", "rho"})
        self.assertAllEqual(wrapper.layer.kernel, np.zeros((3, 2)))

    def test_stateless_call(self) -> None:
        """Values that are given for the posterior's variables are heard."""
        _, model = made(L.Dense(2, use_bias=False))
        mu, rho = (v.value for v in model.trainable_variables)
        state = [v.value for v in model.non_trainable_variables]
        outputs, _ = model.stateless_call([mu + 1.0, rho], state, X)
        self.assertAllClose(outputs, X @ (mu + 1.0), 1e-5)

    def test_fit_and_predict(self) -> None:
        x = RNG.normal(size=(64, 6, 6, 3)).astype("float32")
        y = x.mean(axis=(1, 2, 3))[:, None] * 10.0
        stack = [keras.Input(x.shape[1:]), BayesWrapper(L.SeparableConv2D(4, 3), num_data=64)]
        stack += [L.GlobalAveragePooling2D(), BayesDense(1, num_data=64)]
        model = keras.Sequential(stack)
        model.compile(keras.optimizers.Adam(0.02), tfbdl.likelihoods.Normal(0.3))
        losses = model.fit(x, y, epochs=30, verbose=0).history["loss"]
        self.assertLess(losses[-1], losses[0] - 0.5)
        prediction = tfbdl.predict(model, x, 10, verbose=0)
        self.assertGreater(prediction.epistemic_stddev.min(), 0)

    def test_mixed_precision(self) -> None:
        wrapper, model = made(L.Dense(4, dtype="mixed_float16"))
        self.assertEqual(model(X, training=True).dtype, tf.float16)
        self.assertEqual({q.mu.dtype for q in wrapper.random_weights}, {"float32"})

    def test_refusals(self) -> None:
        built = L.Dense(2)
        built.build((None, 3))
        eight = L.Dense(2)
        eight.build((None, 3))
        eight.quantize("int8")
        cases = {
            "layer=.* holds MCDropout, which is random": lambda: BayesWrapper(
                keras.Sequential([MCDropout(0.1)]), num_data=1
            ),
            "trains no weights of its own; its own are none": lambda: made(L.ReLU()),
            r"weights=\['w'\]: 'w' is no real weight; its own are kernel, bias": lambda: made(
                built, weights=["w"]
            ),
            "'kernel' is no real weight": lambda: made(eight, weights=["kernel"]),
            "layer=3 must be a Keras layer": lambda: BayesWrapper(3, num_data=1),
            "bias_prior and bias_posterior must be None": lambda: made(
                built, weights=["kernel"], bias_prior=1.0
            ),
            "num_data=0": lambda: BayesWrapper(built, num_data=0),
            "estimator='flipout' does not hold": lambda: made(built, estimator="flipout"),
        }
        for message, call in cases.items():
            with self.assertRaisesRegex(ValueError, message):
                call()


if __name__ == "__main__":
    tf.test.main()
