"""Which programs `predict` compiles: few, for models of all kinds, and never of an older model."""

import tempfile
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import two_replicas
from absl.testing import parameterized

import tfbdl
from tfbdl.batches import padded_size
from tfbdl.layers import BayesDense, ConcreteDropout, MCDropout
from tfbdl.predictive.functions import DRAWS_PER_CALL, Functions

RNG = np.random.default_rng(0)
D = 4


def network(*layers: Any) -> Any:
    model = keras.Sequential([keras.Input((D,)), *layers, keras.layers.Dense(2)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def count_traces(layer: Any) -> Any:
    """A list that grows with each tracing of `layer`."""
    traces, call = [], layer.call

    def traced(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not tf.executing_eagerly():
            traces.append(x.shape)
        return call(x, *args, **kwargs)

    layer.call = traced
    return traces


@pytest.mark.xla
class NumberTest(tf.test.TestCase, parameterized.TestCase):
    def test_any_number_of_examples(self) -> None:
        """11 programs at most for 1 to 5,000 examples, and answers of the right ones."""
        drop = MCDropout(0.5, seed=1)
        model = network(drop)
        traces = count_traces(drop)
        x = RNG.normal(size=(5000, D)).astype("float32")
        kwargs = {"likelihood": None, "seed": 3, "verbose": 0}
        whole = tfbdl.predict(model, x, 7, **kwargs)
        numbers = [1, 2, 3, 7, 8, 9, 31, 100, 255, 256, 257, 999, 1000, 1001, 2500, 4999, 5000]
        for number in [*numbers, *RNG.integers(1, 5000, 30)]:
            prediction = tfbdl.predict(model, x[:number], 7, **kwargs)
            self.assertAllClose(prediction.mean, whole.mean[:number], 1e-5, 1e-6)
            self.assertAllClose(
                prediction.epistemic_variance, whole.epistemic_variance[:number], 1e-4, 1e-6
            )
        sizes = {shape[0] for shape in traces}
        self.assertLessEqual(sizes, {*(2**i for i in range(10)), 1000})

    @parameterized.parameters(*range(1, 20), 255, 256, 257, 1000)
    def test_padded_size(self, size: Any) -> None:
        self.assertEqual(padded_size(size), min(2**i for i in range(11) if 2**i >= size))

    def test_any_number_of_draws(self) -> None:
        """Kept functions and bounds have room for a few more draws than they are asked for."""
        drop = MCDropout(0.5, seed=1)
        model = network(drop)
        traces = count_traces(drop)
        x, y = RNG.normal(size=(6, D)).astype("float32"), np.arange(6) % 2
        every = tfbdl.predict(model, x, 250, seed=3, return_samples=True, verbose=0)
        for number in range(1, 251, 7):
            prediction = tfbdl.predict(model, x, number, seed=3, return_samples=True, verbose=0)
            self.assertAllClose(prediction.outputs, every.outputs[:number], 1e-5, 1e-6)
            self.assertAllClose(prediction.mean, every.samples[:number].mean(0), 1e-5, 1e-6)
        self.assertLess(len(traces), 40)
        for number in (1, 10, 37, 120):
            logs = tfbdl.log_predictive_density(model, x, y, number, seed=3)
            exact = np.log(every.samples[:number].mean(0)[np.arange(6), y])
            self.assertAllClose(logs, exact, 1e-5, 1e-6)

    @parameterized.parameters(1, 3, 7, 37, 199, 200, 201)
    def test_draws_of_two_replicas(self, number: Any) -> None:
        with two_replicas.strategy().scope():
            both = network(MCDropout(0.5, seed=1))
        alone = network(MCDropout(0.5, seed=1))
        alone.set_weights(both.get_weights())
        x, kwargs = np.ones((5, D), "float32"), {"seed": 3, "return_samples": True, "verbose": 0}
        actual, expected = (tfbdl.predict(m, x, number, **kwargs) for m in (both, alone))
        self.assertAllClose(actual.outputs, expected.outputs, 1e-5, 1e-6)
        self.assertAllClose(actual.mean, expected.mean, 1e-5, 1e-6)

    def test_rooms(self) -> None:
        functions = Functions.of(network(MCDropout(0.5)), None)
        rooms = {functions._room(range(n)) for n in range(1, DRAWS_PER_CALL + 1)}
        self.assertLess(len(rooms), 25)
        for n in range(1, DRAWS_PER_CALL + 1):
            self.assertBetween(functions._room(range(n)), n, min(1.25 * n, DRAWS_PER_CALL))

    def test_batches_of_a_data_set(self) -> None:
        drop = MCDropout(0.5, seed=1)
        model = network(drop)
        traces = count_traces(drop)
        x = RNG.normal(size=(1000, D)).astype("float32")
        whole = tfbdl.predict(model, x, 5, seed=3, verbose=0).mean
        traces.clear()
        for number in (100, 101, 157, 499, 730):
            data = tf.data.Dataset.from_tensor_slices(x[:number]).batch(100)
            prediction = tfbdl.predict(model, data, 5, seed=3, verbose=0)
            self.assertAllClose(prediction.mean, whole[:number], 1e-5, 1e-6)
        self.assertLessEqual({shape[0] for shape in traces}, {1, 2, 32, 64, 100})


def changed(layer: Any, name: str, value: Any) -> None:
    setattr(layer, name, value)


class Scales(keras.layers.Layer):
    """Settings of a layer of one's own, in all places where they may be."""

    class Held:
        power = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.factors = [1.0, 2.0]
        self.by_name = {"a": [1.0]}
        self.row = np.ones(D, "float32")
        self.constant = tf.constant(1.0)
        self.held = self.Held()

    def call(self, x: Any) -> Any:
        self.last = x  # as layers do whose attention is to be drawn
        x = x * self.factors[0] * self.by_name["a"][0] * self.row * self.constant
        return tf.sign(x) * tf.abs(x) ** self.held.power

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape


def adapted(layer: Any, data: Any) -> Any:
    layer.adapt(data)
    return layer


def normalizing() -> Any:
    return adapted(keras.layers.Normalization(), np.ones((3, D), "float32") * [[1.0], [2.0], [3.0]])


CHANGES = {
    "a list": (Scales, lambda layer: layer.factors.__setitem__(0, 3.0)),
    "a mapping of lists": (Scales, lambda layer: layer.by_name["a"].__setitem__(0, 3.0)),
    "an array, inside": (Scales, lambda layer: layer.row.fill(3.0)),
    "another array": (Scales, lambda layer: changed(layer, "row", np.full(D, 3.0, "float32"))),
    "a tensor": (Scales, lambda layer: changed(layer, "constant", tf.constant(3.0))),
    "an object": (Scales, lambda layer: changed(layer.held, "power", 3.0)),
    "a list of Keras": (
        lambda: keras.layers.Rescaling([1.0] * D),
        lambda layer: changed(layer, "scale", [3.0] * D),
    ),
    "statistics": (normalizing, lambda layer: adapted(layer, np.eye(D, dtype="float32"))),
    "activation": (
        lambda: keras.layers.Dense(3, "relu"),
        lambda layer: changed(layer, "activation", keras.activations.tanh),
    ),
    "activation of random weights": (
        lambda: BayesDense(3, "relu", num_data=5, seed=0),
        lambda layer: changed(layer, "activation", keras.activations.tanh),
    ),
    "per_example": (
        lambda: MCDropout(0.5, seed=0),
        lambda layer: changed(layer, "per_example", True),
    ),
    "rate": (lambda: MCDropout(0.5, seed=0), lambda layer: changed(layer, "rate", 0.1)),
    "noise_shape": (
        lambda: MCDropout(0.5, seed=0),
        lambda layer: changed(layer, "noise_shape", (None, 1)),
    ),
    "temperature": (
        lambda: ConcreteDropout(keras.layers.Dense(3), num_data=5, lengthscale=1.0, seed=0),
        lambda layer: changed(layer, "temperature", 2.0),
    ),
    "inside": (
        lambda: ConcreteDropout(keras.layers.Dense(3), num_data=5, lengthscale=1.0, seed=0),
        lambda layer: changed(layer.layer, "activation", keras.activations.relu),
    ),
    "epsilon": (
        keras.layers.LayerNormalization,
        lambda layer: changed(layer, "epsilon", 3.0),
    ),
    "slope": (
        lambda: keras.layers.LeakyReLU(0.1),
        lambda layer: changed(layer, "negative_slope", 0.9),
    ),
}


class StaleTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.named_parameters((name, *change) for name, change in CHANGES.items())
    def test_a_changed_setting_is_seen(self, make: Any, change: Any) -> None:
        keras.utils.set_random_seed(1)
        layer = make()
        model = network(layer, MCDropout(0.1, seed=7))
        x, kwargs = RNG.normal(size=(6, D)).astype("float32"), {"seed": 3, "verbose": 0}
        before = tfbdl.predict(model, x, 5, **kwargs).mean
        change(layer)
        after = tfbdl.predict(model, x, 5, **kwargs).mean
        self.assertNotAllClose(before, after, 1e-4, 1e-4)
        model.__dict__.pop("_tfbdl_functions")
        self.assertAllEqual(after, tfbdl.predict(model, x, 5, **kwargs).mean)

    def test_another_vocabulary_is_seen(self) -> None:
        lookup = keras.layers.IntegerLookup(output_mode="multi_hot", max_tokens=4)
        lookup.adapt([1, 2, 3])
        model = on("int64", lookup)
        x, kwargs = np.array([[1], [3], [5]]), {"seed": 3, "verbose": 0}
        before = tfbdl.predict(model, x, 5, **kwargs).mean
        lookup.adapt([3, 4, 5])
        after = tfbdl.predict(model, x, 5, **kwargs).mean
        self.assertNotAllClose(before, after, 1e-4, 1e-4)
        model.__dict__.pop("_tfbdl_functions")
        self.assertAllEqual(after, tfbdl.predict(model, x, 5, **kwargs).mean)

    def test_nothing_is_compiled_where_nothing_has_changed(self) -> None:
        drop = MCDropout(0.5)
        kept = [normalizing(), Scales(), keras.layers.LayerNormalization(axis=[1])]
        layers = [*kept, BayesDense(3, num_data=5), keras.layers.BatchNormalization(), drop]
        model = network(*layers)
        x, y = np.ones((6, D), "float32"), np.zeros(6, int)
        tfbdl.predict(model, x, 3, verbose=0)
        traces = count_traces(drop)
        tfbdl.predict(model, x, 3, verbose=0)  # the layer's `call` is another
        number = len(traces)
        model.evaluate(x, y, verbose=0)
        model.predict(x, verbose=0)
        model(x)
        model.optimizer.learning_rate = 0.5
        model.fit(x, y, verbose=0)
        model.compile("adam", model.loss)
        in_fit = len(traces)
        self.assertGreater(in_fit, number)
        tfbdl.predict(model, x, 4, verbose=0)
        self.assertLen(traces, in_fit)


class Hashed(keras.layers.Layer):
    """An operation for which XLA has no kernel, on numbers."""

    def call(self, x: Any) -> Any:
        return tf.cast(tf.strings.to_hash_bucket_fast(tf.strings.as_string(x), 7), "float32")

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape


def on(dtype: Any, *layers: Any) -> keras.Model:
    """A network whose dropout stands behind layers on inputs of that type."""
    x = h = keras.Input((1,), dtype=dtype)
    for layer in (*layers, keras.layers.Dense(4), MCDropout(0.5, seed=1), keras.layers.Dense(2)):
        h = layer(h)
    return keras.Model(x, h)


def on_strings() -> Any:
    lookup = keras.layers.StringLookup(vocabulary=["a", "b", "c"], output_mode="one_hot")
    return on("string", lookup)


def on_text() -> Any:
    words = keras.layers.TextVectorization(vocabulary=["a", "b", "c"], output_sequence_length=3)
    return on("string", words, keras.layers.Embedding(5, 4), keras.layers.Flatten())


def on_numbers() -> Any:
    return on("int64", keras.layers.IntegerLookup(vocabulary=[3, 5, 7], output_mode="multi_hot"))


def on_hashes() -> Any:
    return on("int64", Hashed())


def on_hashed_strings() -> Any:
    return on("string", keras.layers.Hashing(5, output_mode="one_hot"))


WORDS = np.array([["a"], ["b"], ["unknown"], ["c"], ["a"]])
NUMBERS = np.array([[3], [5], [4], [7], [3]])
MODELS = (
    (on_strings, WORDS),
    (on_text, WORDS),
    (on_hashed_strings, WORDS),
    (on_numbers, NUMBERS),
    (on_hashes, NUMBERS),
)


@pytest.mark.xla
class BeyondXLATest(tf.test.TestCase, parameterized.TestCase):
    """What XLA cannot compile runs as a graph."""

    @parameterized.parameters(*MODELS)
    def test_predict(self, make: Any, x: Any) -> None:
        model = make()
        data = tf.data.Dataset.from_tensor_slices(x).batch(3)
        prediction = tfbdl.predict(model, data, 40, seed=1, return_samples=True, verbose=0)
        self.assertAllClose(prediction.samples[:, 0], prediction.samples[:, 4], 1e-5, 1e-6)
        self.assertGreater(prediction.epistemic_stddev.min(), 0.0)
        dense, drop = model.layers[-1], model.layers[-2]
        features = keras.Model(model.input, drop.input)(tf.constant(x))
        kept = [drop(features, draw=tfbdl.draws.make_draw(1, s)) for s in range(40)]
        self.assertAllClose(prediction.mean, np.mean([dense(h) for h in kept], 0), 1e-5, 1e-6)

    @parameterized.parameters(*MODELS)
    def test_arrays(self, make: Any, x: Any) -> None:
        """As data sets, whatever type NumPy or TensorFlow gives their strings."""
        model = make()
        expected = tfbdl.predict(model, tf.data.Dataset.from_tensors(x), 9, seed=1, verbose=0).mean
        for same in (x, tf.constant(x), tf.constant(x).numpy()):
            actual = tfbdl.predict(model, same, 9, seed=1, verbose=0).mean
            self.assertAllClose(actual, expected, 1e-6, 1e-6)

    @parameterized.parameters(*MODELS)
    def test_xla_all_the_same(self, make: Any, x: Any) -> None:
        message = "^jit_compile=True: XLA cannot compile [A-Za-z0-9, ]+; leave jit_compile out$"
        with self.assertRaisesRegex(ValueError, message):
            tfbdl.predict(make(), x, 4, jit_compile=True, verbose=0)

    @parameterized.parameters(*MODELS)
    def test_training_and_laplace(self, make: Any, x: Any) -> None:
        """As those of the same network behind its look-up."""
        y, likelihood = np.arange(5) % 2, tfbdl.likelihoods.Categorical()
        whole = make()
        between = next(layer for layer in whole.layers if layer.trainable_variables).input
        features = keras.Model(whole.input, between)(tf.constant(x))
        rest = keras.models.clone_model(keras.Model(between, whole.output))
        for variable, own in zip(rest.trainable_variables, whole.trainable_variables, strict=True):
            variable.assign(own)
        actual = []
        for model, inputs in ((whole, x), (rest, features)):
            model.compile("sgd", likelihood)
            history = tfbdl.train(model, inputs, y, epochs=3, batch_size=5, verbose=0)
            network = tfbdl.to_deterministic(model)
            laplace = tfbdl.inference.Laplace(network, likelihood=likelihood).fit(inputs, y)
            prediction = tfbdl.predict(laplace, inputs, 9, seed=1, verbose=0)
            actual.append((history["loss"], prediction.mean))
        self.assertAllClose(actual[0], actual[1], 1e-5, 1e-6)

    @parameterized.parameters(*MODELS)
    def test_bound(self, make: Any, x: Any) -> None:
        model, y = make(), np.arange(5) % 2
        likelihood = tfbdl.likelihoods.Categorical()
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(5)
        logs = tfbdl.log_predictive_density(
            model, data, num_samples=9, seed=1, likelihood=likelihood
        )
        inputs = tf.data.Dataset.from_tensor_slices(x).batch(5)
        prediction = tfbdl.predict(
            model, inputs, 9, seed=1, likelihood=likelihood, return_samples=True
        )
        self.assertAllClose(logs, prediction.log_prob(y), 1e-5, 1e-6)

    @parameterized.parameters(*MODELS)
    def test_export(self, make: Any, x: Any) -> None:
        model = make()
        folder = self.enter_context(tempfile.TemporaryDirectory())
        tfbdl.export(model, f"{folder}/served", num_samples=9, seed=1)
        served = tf.saved_model.load(f"{folder}/served").signatures["serving_default"]
        answer = served(x=tf.constant(x))
        data = tf.data.Dataset.from_tensor_slices(x).batch(5)
        prediction = tfbdl.predict(model, data, 9, seed=1, verbose=0)
        self.assertAllClose(answer["mean"], prediction.mean, 1e-5, 1e-6)
        self.assertAllClose(answer["stddev"], prediction.stddev, 1e-4, 1e-5)

    def test_one_may_say_so(self) -> None:
        model = network(MCDropout(0.5, seed=1))
        x = np.ones((3, D), "float32")
        means = [
            tfbdl.predict(model, x, 5, seed=1, jit_compile=jit, verbose=0).mean
            for jit in (None, True, False)
        ]
        self.assertAllClose(means[1], means[0], 1e-6)
        self.assertAllClose(means[2], means[0], 1e-5, 1e-6)


if __name__ == "__main__":
    tf.test.main()
