"""BayesEmbedding: Keras' layer at the mean and in draws, one table for all integers of a step."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from absl.testing import parameterized

from tfbdl import layers, predict, priors
from tfbdl.draws import DrawnModel, make_draw

tfd = tfp.distributions
IDS = np.array([[0, 3, 3, 1], [2, 0, 3, 4]])


def plain_layer(table: Any, **arguments: Any) -> Any:
    layer = keras.layers.Embedding(5, 3, **arguments)
    layer.build()
    layer.set_weights([np.asarray(table)])
    return layer


class TableTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(np.int32, np.int64, np.uint8, np.float32)
    def test_at_the_mean_and_in_draws_it_is_keras_layer(self, dtype: Any) -> None:
        layer, draw = layers.BayesEmbedding(5, 3, num_data=10), make_draw(0, 1)
        x = IDS.astype(dtype)
        layer(x)
        (table,), _kl = layer.weights_at(draw)
        for weights, call in ((layer.embeddings.mean, {}), (table, {"draw": draw})):
            self.assertAllEqual(layer(x, **call), plain_layer(weights)(x))
        self.assertTrue(np.all(table != layer.embeddings.mean))
        self.assertEqual(layer.compute_output_shape((None, 7)), (None, 7, 3))

    def test_training_has_one_table(self) -> None:
        """Equal integers, equal vectors, also in another example; another table at each step."""
        layer = layers.BayesEmbedding(5, 3, num_data=10, seed=1)
        layer(IDS)
        tables = []
        for step in range(2):
            layer.seed.state.assign([1, step])
            (table,), _kl = layer.sampled_weights()
            layer.seed.state.assign([1, step])
            y = layer(IDS, training=True)
            self.assertAllEqual(y, plain_layer(table)(IDS))
            tables.append(table)
        self.assertTrue(np.all(tables[0] != tables[1]))

    def test_law(self) -> None:
        layer = layers.BayesEmbedding(500, 40, num_data=10, seed=1)
        y = layer(np.arange(500), training=True)
        z = np.ravel((y - layer.embeddings.mean) / layer.embeddings.stddev).astype("float64")
        self.assertLess(abs(z.mean()), 5 / np.sqrt(z.size))
        self.assertLess(abs(z.var() - 1), 5 * np.sqrt(2 / z.size))
        self.assertLess(abs(np.corrcoef(z[1:], z[:-1])[0, 1]), 5 / np.sqrt(z.size))

    def test_masks(self) -> None:
        layer, plain = (
            kind(5, 3, mask_zero=True, **own)
            for kind, own in (
                (layers.BayesEmbedding, {"num_data": 10}),
                (keras.layers.Embedding, {}),
            )
        )
        self.assertAllEqual(layer(IDS)._keras_mask, plain(IDS)._keras_mask)
        self.assertIsNone(layers.BayesEmbedding(5, 3, num_data=10).compute_mask(IDS))
        again = layers.BayesEmbedding.from_config(layer.get_config())
        self.assertAllEqual(again(IDS)._keras_mask, plain(IDS)._keras_mask)
        summed = keras.Sequential([layer, keras.layers.GlobalAveragePooling1D()])
        expected = tf.reduce_sum(layer(IDS)[0, 1:], axis=0) / 3
        self.assertAllClose(summed(IDS)[0], expected, 1e-5)

    @parameterized.parameters("mixed_float16", "mixed_bfloat16", "float64")
    def test_precision(self, policy: str) -> None:
        """Integers beyond what half precision can tell apart are told apart."""
        layer = layers.BayesEmbedding(3000, 2, num_data=10, dtype=policy)
        x = np.array([2047.0, 2048.0, 2049.0], "float32")
        y = layer(x, training=True)
        self.assertEqual(y.dtype, policy.removeprefix("mixed_"))
        self.assertLen(np.unique(tf.cast(y, tf.float32)), 6)
        self.assertEqual(layer.losses[0].dtype, layer.embeddings.mu.dtype)

    def test_start(self) -> None:
        table = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
        for given in (table, [table]):
            layer = layers.BayesEmbedding(5, 3, weights=given, num_data=10)
            self.assertAllEqual(layer(IDS), table[IDS])
        layer = layers.BayesEmbedding(5, 3, "ones", num_data=10)
        self.assertAllEqual(layer(IDS), np.ones((2, 4, 3)))


class LossTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(True, False)
    def test_kl_of_the_whole_table(self, training: Any) -> None:
        layer = layers.BayesEmbedding(5, 3, num_data=37, prior=0.5)
        for _ in range(2):
            layer(IDS, training=training)
        mu, rho = (v.numpy().astype("float64") for v in (layer.embeddings.mu, layer.embeddings.rho))
        p = tfd.Normal(tf.constant(0.0, tf.float64), 0.5)
        kl = np.sum(tfd.kl_divergence(tfd.Normal(mu, np.logaddexp(0, rho)), p))
        self.assertAllClose(layer.losses, [kl / 37], 1e-5)

    def test_rows_never_seen_keep_to_the_prior(self) -> None:
        """Rows seen fit the data; the others' q becomes p. Exact, since the model is linear."""
        n, noise = 30, 0.5
        rng = np.random.default_rng(0)
        ids = rng.integers(0, 3, size=n)
        y = (np.array([-1.0, 0.0, 2.0])[ids] + noise * rng.normal(size=n)).astype("float32")
        layer = layers.BayesEmbedding(5, 1, num_data=n, prior=priors.Normal(1.5), seed=0)
        model = keras.Sequential([keras.Input((), dtype="int32"), layer])
        model.compile(
            keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.05, 3000)),
            lambda y, f: 0.5 * tf.square(y - f) / noise**2,
            jit_compile=True,
        )
        data = tf.data.Dataset.from_tensors((ids, y[:, None])).repeat(3000)
        model.fit(data, verbose=0, shuffle=False)
        counts = np.bincount(ids, minlength=5)
        precision = 1 / 1.5**2 + counts / noise**2
        mean = np.bincount(ids, y, minlength=5) / noise**2 / precision
        sd = precision**-0.5
        self.assertLess(np.max(np.abs(layer.embeddings.mean[:, 0] - mean) / sd), 0.3)
        self.assertAllClose(layer.embeddings.stddev[:, 0], sd, 0.1)

    def test_same_eager_in_graphs_and_under_xla(self) -> None:
        layer, x = layers.BayesEmbedding(5, 3, num_data=10), tf.constant(IDS)
        layer(x)

        def step() -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.square(layer(x, training=True))) + sum(layer.losses)
            return loss, *tape.gradient(loss, [v.value for v in layer.trainable_variables])

        actual = []
        for run in (step, tf.function(step), tf.function(step, jit_compile=True)):
            layer.seed.state.assign([1, 0])
            actual.append(run())
        for other in actual[1:]:
            for a, b in zip(actual[0], other, strict=True):
                self.assertAllClose(a, b, 1e-5, 1e-6)


class ModelTest(tf.test.TestCase):
    def test_a_network_for_text_is_trained_and_drawn(self) -> None:
        rng = np.random.default_rng(0)
        x = rng.integers(1, 20, size=(200, 8))
        y = np.any(x == 7, axis=1).astype("int32")
        model = keras.Sequential(
            [
                keras.Input((None,), dtype="int32"),
                layers.BayesEmbedding(20, 8, mask_zero=True, num_data=200),
                layers.BayesGRU(8, num_data=200),
                layers.BayesDense(2, num_data=200),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.05), loss, jit_compile=True)
        history = model.fit(x, y, batch_size=100, epochs=12, verbose=0).history["loss"]
        self.assertLess(history[-1], history[0] - 0.3)
        prediction = predict(model, x, 3, seed=3, return_samples=True, verbose=0)
        for sample in range(3):
            drawn = DrawnModel(model)(x, draw=make_draw(3, sample))
            self.assertAllClose(prediction.outputs[sample], drawn, 1e-3, 1e-3)


class ArgumentsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters("flipout", "local_reparameterization", "per_example")
    def test_other_estimators_are_refused(self, estimator: str) -> None:
        message = f"^estimator='{estimator}' does not hold for BayesEmbedding, .* use 'repara"
        with self.assertRaisesRegex(ValueError, message):
            layers.BayesEmbedding(5, 3, num_data=10, estimator=estimator)  # type: ignore[call-arg]

    @parameterized.parameters(
        ("input_dim", 0, "^input_dim=0 must be a positive integer$"),
        ("output_dim", 2.0, "^output_dim=2.0 must be a positive integer$"),
        ("num_data", None, "^num_data=None must be a positive integer"),
        ("weights", np.ones((3, 5)), r"^weights of shape \(3, 5\) must have .*=\(5, 3\)$"),
        ("bias_prior", 1.0, "^bias_prior and bias_posterior must be None"),
    )
    def test_ranges(self, name: str, value: Any, message: str) -> None:
        arguments = {"input_dim": 5, "output_dim": 3, "num_data": 10, name: value}
        with self.assertRaisesRegex(ValueError, message):
            layers.BayesEmbedding(**arguments)


if __name__ == "__main__":
    tf.test.main()
