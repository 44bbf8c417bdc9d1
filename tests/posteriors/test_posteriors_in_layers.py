"""BayesDense with every family: trained, drawn, saved, copied."""

import copy
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized
from posterior_families import CONTINUOUS, FAMILIES, law

import tfbdl
from tfbdl import posteriors
from tfbdl.draws import DrawnModel, make_draw
from tfbdl.graphs import has_loops
from tfbdl.layers import BayesDense

RNG = np.random.default_rng(0)
N = 12
X = RNG.normal(size=(N, 3)).astype("float32")
Y = RNG.normal(size=(N, 2)).astype("float32")
TRAINED = tuple(family for family in FAMILIES if family != "prior")


def model_of(family: Any, **kwargs: Any) -> Any:
    """A layer of `family` behind a Keras layer, all its parameters away from their start."""
    keras.utils.set_random_seed(0)
    layer = BayesDense(2, num_data=N, prior=FAMILIES[family], posterior=family, **kwargs)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "tanh"), layer])
    rng = np.random.default_rng(1)
    for v in layer.trainable_variables:
        v.assign(v + rng.normal(0, 0.1, v.shape))
    model.compile(keras.optimizers.Adam(0.01), "mse")
    model.optimizer.build(model.trainable_variables)
    return model


class TrainingTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*TRAINED)
    def test_fit_and_train(self, family: Any) -> None:
        """The loss falls under both, all parameters move, and the loss is the mean plus KL / N."""
        model = model_of(family)
        start = [v.numpy() for v in model.trainable_variables]
        first = model.fit(X, Y, batch_size=4, epochs=20, verbose=0).history["loss"]
        history = tfbdl.train(model, X, Y, epochs=60, batch_size=4, verbose=0)
        self.assertTrue(np.all(np.isfinite(first + history["loss"])))
        self.assertLess(np.mean(history["loss"][-5:]), np.mean(first[:5]))
        for v, before in zip(model.trainable_variables, start, strict=True):
            self.assertTrue(np.all(np.isfinite(v.value)))
            self.assertGreater(np.abs(v.numpy() - before).min(), 0.0, v.path)
        layer = model.layers[-1]
        mse = np.mean((model(X).numpy() - Y) ** 2)
        kl = sum(float(q.kl(tf.constant(0, tf.int64))) for q in (layer.kernel, layer.bias))
        self.assertAllClose(model.evaluate(X, Y, verbose=0), mse + kl / N, 1e-5)

    @parameterized.parameters(
        *((family, "reparameterization") for family in TRAINED),
        *((family, "per_example") for family in ("full_covariance", "relaxed_bernoulli")),
    )
    def test_compiled_step(self, family: Any, estimator: str) -> None:
        """Under XLA as without, from the same noise."""
        losses = []
        for jit_compile in (False, True):
            model = model_of(family, estimator=estimator, seed=1)
            model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=jit_compile)
            losses.append([model.train_on_batch(X, Y) for _ in range(2)])
        self.assertAllClose(losses[0], losses[1], 1e-4)

    @parameterized.parameters(*TRAINED)
    def test_samples_of_examples_are_taken_at_once(self, family: Any) -> None:
        """No loop over the examples, forwards or backwards."""
        layer = BayesDense(
            2, num_data=N, prior=FAMILIES[family], posterior=family, estimator="per_example"
        )
        layer.build(X.shape)

        def loss_and_gradients() -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(layer(X, training=True)) + tf.add_n(layer.losses)
            return loss, tape.gradient(loss, [v.value for v in layer.trainable_variables])

        step = tf.function(loss_and_gradients).get_concrete_function()
        self.assertFalse(has_loops(step.graph))


class PredictTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*FAMILIES)
    def test_draws_are_coherent(self, family: Any) -> None:
        """One function for all rows: equal rows equal outputs, in any batches."""
        model = model_of(family)
        twice = np.concatenate([X, X[::-1]])
        y = tfbdl.predict(model, twice, 5, seed=3, batch_size=7, return_samples=True).outputs
        self.assertAllClose(y[:, :N], y[:, N:][:, ::-1], 1e-6, 1e-6)
        by_hand = [DrawnModel(model)(X, draw=make_draw(3, s)) for s in range(5)]
        self.assertAllClose(y[:, :N], np.stack(by_hand), 1e-5, 1e-6)
        varies = np.ptp(y, axis=0).max()
        self.assertEqual(varies > 0, family != "point")

    @parameterized.parameters(*CONTINUOUS)
    def test_moments_of_a_linear_layer(self, family: Any) -> None:
        """Mean x E[W] + E[b], variance x^T Cov(W_j) x + Var(b_j), covariance of two outputs."""
        layer = BayesDense(2, num_data=N, prior=FAMILIES[family], posterior=family)
        model = keras.Sequential([keras.Input((3,)), layer])
        rng = np.random.default_rng(1)
        for v in layer.trainable_variables:
            v.assign(v + rng.normal(0, 0.1, v.shape))
        num = 5000
        y = tfbdl.predict(model, X, num, seed=1, return_samples=True).outputs
        kernel, bias = law(layer.kernel), law(layer.bias)
        mean = X @ kernel.mean.reshape(3, 2) + bias.mean
        blocks = kernel.covariance.reshape(3, 2, 3, 2)
        covariance = np.einsum("ni,ijkl,nk->njl", X, blocks, X) + bias.covariance
        deviation = y - mean
        error = deviation.std(axis=0) / np.sqrt(num)
        self.assertLess(np.max(np.abs(deviation.mean(axis=0)) / error), 5)
        products = deviation[..., :, None] * deviation[..., None, :]
        error = products.std(axis=0) / np.sqrt(num)
        self.assertLess(np.max(np.abs(products.mean(axis=0) - covariance) / error), 5)

    def test_moments_of_a_binary_linear_layer(self) -> None:
        layer = BayesDense(2, num_data=N, prior="bernoulli", posterior="relaxed_bernoulli")
        model = keras.Sequential([keras.Input((3,)), layer])
        num = 5000
        y = tfbdl.predict(model, X, num, seed=1, return_samples=True).outputs
        deviation = y - model(X).numpy()
        variance = X**2 @ np.square(layer.kernel.stddev) + np.square(layer.bias.stddev)
        error = np.sqrt(variance / num)
        self.assertLess(np.max(np.abs(deviation.mean(axis=0)) / error), 5)
        error = np.std(deviation**2, axis=0) / np.sqrt(num)
        self.assertLess(np.max(np.abs(np.mean(deviation**2, axis=0) - variance) / error), 5)


class SavingTest(tf.test.TestCase, parameterized.TestCase):
    def assert_same_function(self, model: Any, other: Any) -> None:
        """Means, draws, KL, and the noise of the next training steps."""
        for training in (False, True, True):
            a, b = (m(X, training=training) for m in (model, other))
            self.assertAllEqual(a, b)
            self.assertAllEqual(model.losses, other.losses)
        draws = [DrawnModel(m)(X, draw=make_draw(0, 1)) for m in (model, other)]
        self.assertAllEqual(*draws)

    @parameterized.parameters(*FAMILIES)
    def test_keras_file(self, family: Any) -> None:
        model = model_of(family)
        model.fit(X, Y, batch_size=4, verbose=0)
        path = f"{self.get_temp_dir()}/model.keras"
        model.save(path)
        loaded = keras.models.load_model(path, safe_mode=True)
        self.assert_same_function(model, loaded)
        for q in (loaded.layers[-1].kernel, loaded.layers[-1].bias):
            self.assertIs(type(q), type(posteriors.get(family)))

    @parameterized.parameters(*FAMILIES)
    def test_weights_checkpoints_and_copies(self, family: Any) -> None:
        model, other, restored = (model_of(family) for _ in range(3))
        for v in model.trainable_variables:
            v.assign(v + 0.05)
        path = f"{self.get_temp_dir()}/model.weights.h5"
        model.save_weights(path)
        other.load_weights(path)
        self.assert_same_function(model, other)
        path = tf.train.Checkpoint(model=model).save(f"{self.get_temp_dir()}/checkpoint")
        tf.train.Checkpoint(model=restored).restore(path).assert_existing_objects_matched()
        self.assert_same_function(model, restored)
        copied = copy.deepcopy(model)
        self.assert_same_function(model, copied)
        for v in copied.layers[-1].trainable_variables:
            v.assign(v + 1.0)
        self.assertAllEqual(model(X), other(X))


if __name__ == "__main__":
    tf.test.main()
