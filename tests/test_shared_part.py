"""What all functions share is computed once, and nothing that is random or changes is shared."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl.draws import DrawnModel, make_draw
from tfbdl.graphs import loop_bodies, operations

X = np.random.default_rng(0).normal(size=(40, 3)).astype("float32")


class OwnNoise(keras.layers.Layer):
    """A user's layer whose noise knows no draws: TensorFlow's, or that of Keras' seeds."""

    def __init__(self, of_keras: bool) -> None:
        super().__init__()
        self.generator = keras.random.SeedGenerator(1) if of_keras else None

    def call(self, x: Any) -> Any:
        if self.generator is None:
            return x + tf.random.normal(tf.shape(x))
        return x + keras.random.normal(tf.shape(x), seed=self.generator)


class Counter(keras.layers.Layer):
    """It counts how often it is computed."""

    def build(self, shape: Any) -> None:
        self.count = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, x: Any) -> Any:
        self.count.assign_add(1.0)
        return x + 0.0 * tf.identity(self.count.value)


class Checked(keras.layers.Layer):
    """It asserts that its inputs are small, which is as true for one function as for all."""

    def call(self, x: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_less(x, 100.0)]):
            return tf.identity(x)


def network(*first: Any, last: Any = None) -> keras.Model:
    """Layers before a random one; look-ups, which XLA cannot compile, among its inputs."""
    given, kind = keras.Input((3,), name="given"), keras.Input((1,), name="kind", dtype="string")
    one_hot = keras.layers.StringLookup(vocabulary=["a", "b"], output_mode="one_hot")(kind)
    h = keras.layers.Concatenate()([given, one_hot])
    for layer in first:
        h = layer(h)
    last = last or tfbdl.layers.BayesDense(1, num_data=40)
    return keras.Model({"given": given, "kind": kind}, last(h))


def inputs() -> dict[str, Any]:
    return {"given": tf.constant(X), "kind": tf.constant([["a"], ["b"]] * 20)}


def in_loops(function: Any) -> set[str]:
    """The kinds of operations in the loops of a concrete function."""
    bodies = loop_bodies(function.graph)
    assert bodies
    return {node.op for body in bodies for node in body.node_def}


def looped(model: keras.Model, number: int = 3) -> Any:
    """`number` draws in a loop, the first of them in the graph around it as well."""
    sampler = DrawnModel(model)

    @tf.function(autograph=False)
    def run(x: Any) -> Any:
        first = sampler(x, draw=make_draw(7, 0))
        return tf.map_fn(
            lambda s: sampler(x, draw=make_draw(7, s)),
            tf.range(number),
            fn_output_signature=first.dtype,
        )

    return run


class SharedPartTest(tf.test.TestCase, parameterized.TestCase):
    def test_it_stands_before_the_loop(self) -> None:
        model = network(keras.layers.Dense(4, activation="tanh"))
        run = looped(model)
        inside = in_loops(run.get_concrete_function(inputs()))
        self.assertFalse(inside & {"Tanh", "LookupTableFindV2"})
        self.assertIn("MatMul", inside)
        each = [DrawnModel(model)(inputs(), draw=make_draw(7, s)) for s in range(3)]
        self.assertAllClose(run(inputs()), each, 1e-5, 1e-6)
        self.assertGreater(np.std(each, axis=0).min(), 0.0)

    @parameterized.parameters(
        lambda: [keras.layers.Reshape((6, 1)), keras.layers.LSTM(3)],
        lambda: [keras.layers.Reshape((6, 1)), keras.layers.Conv1D(2, 3), keras.layers.Flatten()],
        lambda: [
            keras.layers.Discretization([-1.0, 0.0, 1.0]),
            keras.layers.Embedding(4, 2),
            keras.layers.GlobalAveragePooling1D(),
        ],
        lambda: [keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)],
    )
    def test_layers_that_read_their_state_are_shared(self, make: Any) -> None:
        run = looped(network(*make(), keras.layers.Dense(4, activation="elu")))
        function = run.get_concrete_function(inputs())
        self.assertIn("Elu", operations(function.graph))
        self.assertNotIn("Elu", in_loops(function))

    def test_what_comes_after_stays_in_it(self) -> None:
        model = network(tfbdl.layers.BayesDense(4, num_data=40), keras.layers.Dense(4, "tanh"))
        self.assertIn("Tanh", in_loops(looped(model).get_concrete_function(inputs())))

    def test_without_a_first_function_nothing_is_shared(self) -> None:
        model = network(keras.layers.Dense(4, activation="tanh"))
        sampler = DrawnModel(model)

        @tf.function(autograph=False)
        def run(x: Any) -> Any:
            return tf.map_fn(
                lambda s: sampler(x, draw=make_draw(7, s)),
                tf.range(3),
                fn_output_signature=tf.float32,
            )

        self.assertIn("Tanh", in_loops(run.get_concrete_function(inputs())))
        self.assertAllClose(run(inputs()), looped(model)(inputs()), 1e-5, 1e-6)

    def test_other_inputs_share_nothing_with_these(self) -> None:
        model = network(keras.layers.Dense(4, activation="tanh"))
        sampler = DrawnModel(model)

        @tf.function(autograph=False)
        def both(x: Any) -> Any:
            other = {**x, "given": x["given"] + 1.0}
            return [sampler(inputs, draw=make_draw(7, 0)) for inputs in (x, other)]

        x = inputs()
        expected = [sampler(x, draw=make_draw(7, 0))]
        x["given"] += 1.0
        expected.append(sampler(x, draw=make_draw(7, 0)))
        self.assertAllClose(both(inputs()), expected, 1e-5, 1e-6)

    @parameterized.parameters(True, False)
    def test_noise_of_a_users_own_is_anew_in_each_draw(self, of_keras: bool) -> None:
        """Behind weights that hardly vary, their predictions vary as its noise does."""
        kernel = np.array([[1.0], [2.0], [2.0], *[[0.0]] * 3])
        hardly = tfbdl.posteriors.MeanFieldNormal(keras.initializers.Constant(-20.0))
        last = tfbdl.layers.BayesDense(1, num_data=40, posterior=hardly)
        model = network(OwnNoise(of_keras), last=last)
        last.kernel.mu.assign(kernel)
        prediction = tfbdl.predict(model, inputs(), 100, seed=0, verbose=0)
        variance = prediction.epistemic_variance.mean() * 100 / 99
        self.assertAllClose(variance, 9.0, atol=4 * 9.0 * (2 / (40 * 99)) ** 0.5)

    def test_what_changes_something_is_not_shared(self) -> None:
        model = network(counter := Counter(), keras.layers.Dense(4, activation="tanh"))
        run = looped(model)
        self.assertIn("Tanh", in_loops(run.get_concrete_function(inputs())))
        run(inputs())
        self.assertEqual(float(counter.count), 4.0)

    def test_what_is_checked_is_checked_once(self) -> None:
        run = looped(network(Checked(), keras.layers.Dense(4, activation="tanh")))
        self.assertNotIn("Tanh", in_loops(run.get_concrete_function(inputs())))
        with self.assertRaises(tf.errors.InvalidArgumentError):
            run({**inputs(), "given": tf.fill([40, 3], 101.0)})

    def test_predictions_compute_it_once(self) -> None:
        """Whoever compiles what: neither a prediction's loop nor that of a density has it."""
        model = network(keras.layers.Dense(4, activation="tanh"))
        y = X[:, :1]
        likelihood = tfbdl.likelihoods.Normal(scale=1.0)
        graphs: list[Any] = []
        run = tfbdl.graphs.Compiled.__call__

        def watched(compiled: Any, *args: Any) -> Any:
            graphs.append(compiled.graph(*args))
            return run(compiled, *args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tfbdl.graphs.Compiled, "__call__", watched)
            tfbdl.predict(model, inputs(), 3, verbose=0)
            tfbdl.predict(model, inputs(), 3, return_samples=True, verbose=0)
            tfbdl.log_predictive_density(model, inputs(), y, 3, likelihood=likelihood)
        whole = [graph for graph in graphs if "Tanh" in operations(graph.graph)]
        self.assertLen(whole, 3)
        for graph in whole:
            self.assertNotIn("Tanh", in_loops(graph))


if __name__ == "__main__":
    tf.test.main()
