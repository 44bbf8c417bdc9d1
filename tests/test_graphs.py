"""Who compiles what: XLA everywhere, but for convolutions on a CPU."""

from typing import Any, NamedTuple
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl.graphs import Compiled, convolves, has_loops, operations
from tfbdl.inference import MAP, MCMC, Laplace, LogPosterior
from tfbdl.training.feed import Arrays
from tfbdl.training.steps import Steps

pytestmark = pytest.mark.xla

X = np.random.default_rng(0).normal(size=(6, 8, 8, 2)).astype("float32")
W = np.random.default_rng(1).normal(size=(3, 3, 2, 4)).astype("float32")
Y = np.arange(6) % 4


def convolution(x: Any) -> Any:
    return tf.nn.conv2d(x, W, 1, "VALID")


def product(x: Any) -> Any:
    return tf.einsum("bijc,klcf->bf", x, W)


def in_a_loop(x: Any) -> Any:
    return tf.while_loop(
        lambda i, _: i < 2, lambda i, _: (i + 1, convolution(x)), (0, x[:, 1:7, 1:7] @ W[0, 0])
    )[1]


def in_a_gradient(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(keras.ops.depthwise_conv(x, W, padding="same") ** 2)
    return tape.gradient(loss, x)


def by_xla(graph: Any) -> Any:
    attributes = graph.function_def.attr
    return "_XlaMustCompile" in attributes and attributes["_XlaMustCompile"].b


def cnn() -> Any:
    stack = [keras.layers.Conv2D(3, 3, activation="relu"), keras.layers.Flatten()]
    model = keras.Sequential([keras.Input((8, 8, 2)), *stack, keras.layers.Dense(4)])
    model.compile("adam", tfbdl.likelihoods.Categorical())
    return model


def slow(layer: Any, *, dropout_first: bool) -> Any:
    """A convolution of what is dropped anew in each draw, or before that."""
    dropout, shape = tfbdl.layers.MCDropout(0.5), keras.layers.Reshape(layer.shape)
    first = [dropout, shape, layer.make()] if dropout_first else [shape, layer.make(), dropout]
    stack = [*first, keras.layers.Flatten(), keras.layers.Dense(4)]
    model = keras.Sequential([keras.Input((8, 8, 2)), *stack])
    model.compile("adam", tfbdl.likelihoods.Categorical())
    return model


class Slow(NamedTuple):
    """A layer that XLA is slow at, and the shape of what it takes."""

    make: Any
    shape: Any


SLOW = (
    Slow(lambda: keras.layers.DepthwiseConv2D(3), (8, 8, 2)),
    Slow(lambda: keras.layers.DepthwiseConv1D(3), (64, 2)),
    Slow(lambda: keras.layers.SeparableConv2D(2, 3), (8, 8, 2)),
    Slow(lambda: keras.layers.Conv2DTranspose(2, 3), (8, 8, 2)),
    Slow(lambda: keras.layers.Conv3D(2, 2), (8, 8, 2, 1)),
    Slow(lambda: keras.layers.Conv3DTranspose(2, 2), (8, 8, 2, 1)),
)


def with_dropout(model: Any) -> keras.Model:
    stack = [*model.layers[:-1], keras.layers.Dropout(0.5), model.layers[-1]]
    return keras.Sequential([keras.Input((8, 8, 2)), *stack])


def mlp() -> Any:
    stack = [keras.layers.Flatten(), keras.layers.Dense(4)]
    model = keras.Sequential([keras.Input((8, 8, 2)), *stack])
    model.compile("adam", tfbdl.likelihoods.Categorical())
    return model


def rnn() -> Any:
    """Its loop reads what has a gradient."""
    below = [keras.layers.Reshape((8, 16)), keras.layers.Dense(2)]
    stack = [*below, keras.layers.GRU(3), keras.layers.Dense(4)]
    model = keras.Sequential([keras.Input((8, 8, 2)), *stack])
    model.compile("adam", tfbdl.likelihoods.Categorical())
    return model


def slope(rounds: Any, **kwargs: Any) -> Any:
    """d/dw of w^(2^rounds), which is squared in a loop."""

    def function(w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(w)
            _, y = tf.while_loop(
                lambda i, _: i < rounds(w), lambda i, y: (i + 1, y * y), (0, w), **kwargs
            )
        return tape.gradient(y, w)

    return function


class CompiledTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(convolution, in_a_loop, in_a_gradient)
    def test_convolutions_are_left_to_tensorflow(self, function: Any) -> None:
        x = tf.constant(X)
        compiled = Compiled(function)
        self.assertFalse(by_xla(compiled.graph(x)))
        self.assertAllClose(compiled(x), function(x), 1e-5, 1e-5)

    def test_all_else_is_compiled(self) -> None:
        compiled = Compiled(product)
        self.assertTrue(by_xla(compiled.graph(tf.constant(X))))
        self.assertAllClose(compiled(tf.constant(X)), product(X), 1e-5, 1e-5)

    def test_on_a_gpu_so_are_convolutions(self) -> None:
        with mock.patch("tensorflow.config.list_logical_devices", lambda kind: [kind]):
            self.assertTrue(by_xla(Compiled(convolution).graph(tf.constant(X))))

    @parameterized.parameters(convolution, product)
    def test_one_may_say_so(self, function: Any) -> None:
        for jit_compile in (True, False):
            graph = Compiled(function, jit_compile).graph(tf.constant(X))
            self.assertEqual(by_xla(graph), jit_compile)

    def test_traced_once_for_each_kind(self) -> None:
        traces = []

        def counted(x: Any) -> Any:
            traces.append(x.shape)
            return x + 1.0

        compiled = Compiled(counted)
        for size in (2, 3, 2, 3):
            self.assertAllEqual(compiled(tf.zeros([size])), np.ones(size))
        self.assertEqual(traces, [[2], [3]])

    @parameterized.parameters((convolution, None), (product, None), (product, True))
    def test_traced_once_whoever_compiles_it(self, function: Any, jit_compile: Any) -> None:
        traces = []

        def counted(x: Any) -> Any:
            traces.append(x)
            return function(x)

        compiled = Compiled(counted, jit_compile)
        for _ in range(2):
            self.assertAllClose(compiled(tf.constant(X)), function(X), 1e-5, 1e-5)
        self.assertLen(traces, 1)

    def test_lists_that_grow_are_left_to_tensorflow(self) -> None:
        """XLA loses what does not fit into them, and says nothing."""

        def function(x: Any) -> Any:
            array = tf.TensorArray(tf.int32, size=0, dynamic_size=True)
            return tf.while_loop(
                lambda i, _: i < x, lambda i, array: (i + 1, array.write(i, i)), (0, array)
            )[1].stack()

        self.assertAllEqual(Compiled(function)(tf.constant(3)), [0, 1, 2])
        expected = "^jit_compile=True: XLA cannot compile a TensorArray of dynamic_size; leave .*$"
        with self.assertRaisesRegex(ValueError, expected):
            Compiled(function, True)(tf.constant(3))

    def test_gradients_of_loops(self) -> None:
        w = tf.constant(1.1)
        compiled = Compiled(slope(lambda _: 3, maximum_iterations=3))
        self.assertTrue(by_xla(compiled.graph(w)))
        self.assertAllClose(compiled(w), 8 * 1.1**7, 1e-5)

    def test_gradients_of_loops_of_any_length_are_left_to_tensorflow(self) -> None:
        function = slope(lambda w: tf.cast(w, tf.int32))
        for rounds, w in ((1, 1.1), (2, 2.1), (1, 1.5)):
            self.assertAllClose(
                Compiled(function)(tf.constant(w)), 2**rounds * w ** (2**rounds - 1)
            )
        expected = (
            "^jit_compile=True: XLA cannot compile the gradient of a tf.while_loop without .*$"
        )
        with self.assertRaisesRegex(ValueError, expected):
            Compiled(function, True)(tf.constant(1.1))

    def test_what_xla_refuses_at_last_runs_without_it(self) -> None:
        """An operation that it has, of values for which it has none."""
        runs = []

        def function(x: Any) -> Any:
            return x + 1.0

        compiled, x = Compiled(function), tf.constant(1.0)
        by = compiled.graph(x)
        self.assertTrue(by_xla(by))

        def fails(*args: Any) -> Any:
            runs.append(args)
            raise tf.errors.InvalidArgumentError(None, None, "XLA compilation failed")

        failing = mock.patch.object(type(by), "__call__", fails)
        with failing, self.assertRaises(tf.errors.InvalidArgumentError):
            compiled(x)
        self.assertLen(runs, 2)
        self.assertEqual(float(compiled(x)), 2.0)
        self.assertFalse(by_xla(compiled.graph(x)))

    def test_functions_inside_too(self) -> None:
        """What calls a compiled function without being compiled runs without it as well."""

        def function(x: Any) -> Any:
            return Compiled(lambda: x + 1.0)() + convolution(X)[0, 0, 0, 0]

        compiled, x = Compiled(function), tf.constant(1.0)
        by, calls = compiled.graph(x), []
        self.assertFalse(by_xla(by))
        self.assertIn("_XlaMustCompile", str(by.graph.as_graph_def()))

        def fails_once(graph: Any, *args: Any) -> Any:
            calls.append(graph)
            if graph is by:
                raise tf.errors.InvalidArgumentError(None, None, "XLA compilation failed")
            return own(graph, *args)

        own = type(by).__call__
        with mock.patch.object(type(by), "__call__", fails_once):
            self.assertAllClose(compiled(x), 2.0 + convolution(X)[0, 0, 0, 0], 1e-5)
            self.assertAllClose(compiled(x), 2.0 + convolution(X)[0, 0, 0, 0], 1e-5)
        self.assertIsNot(calls[-1], by)
        self.assertNotIn("_XlaMustCompile", str(calls[-1].graph.as_graph_def()))

    def test_conditions_on_tensors(self) -> None:
        def halved(x: Any) -> Any:
            while x > 1.0:
                x /= 2.0
            return x

        self.assertEqual(float(Compiled(halved, autograph=True)(tf.constant(12.0))), 0.75)
        with self.assertRaises(tf.errors.OperatorNotAllowedInGraphError):
            Compiled(halved)(tf.constant(12.0))

    def test_what_is_in_a_graph(self) -> None:
        graphs = {
            f: tf.function(f).get_concrete_function(tf.constant(X)).graph
            for f in (product, in_a_loop)
        }
        self.assertTrue(convolves(graphs[in_a_loop]))
        self.assertTrue(has_loops(graphs[in_a_loop]))
        self.assertFalse(convolves(graphs[product]))
        self.assertFalse(has_loops(graphs[product]))
        self.assertIn("Einsum", operations(graphs[product]))


class WhereItIsUsedTest(tf.test.TestCase, parameterized.TestCase):
    """What users call has it by default."""

    def compiled(self, call: Any) -> Any:
        """Which of the graphs that a call has run were compiled, with the convolving ones apart."""
        actual: dict[bool, set[Any]] = {True: set(), False: set()}
        run = Compiled.__call__

        def watched(compiled: Any, *args: Any) -> Any:
            graph = compiled.graph(*args)
            actual[convolves(graph.graph)].add(by_xla(graph))
            return run(compiled, *args)

        with mock.patch.object(Compiled, "__call__", watched):
            call()
        return actual

    @parameterized.parameters((cnn, False), (mlp, True))
    def test_laplace_map_and_chains(self, make: Any, expected: Any) -> None:
        model = make()
        target = LogPosterior(model, 1.0, X, Y, likelihood=tfbdl.likelihoods.Categorical())
        of_all = {"subset_of_weights": "all", "hessian_structure": "diag"}
        for call in (
            lambda: Laplace(model, target.likelihood, **of_all).fit(X, Y),
            lambda: MAP(target, tolerance=1e6).fit(),
            lambda: MCMC(target, kernel="rwmh", num_warmup=0, num_samples=4, num_chains=1).fit(
                verbose=0
            ),
        ):
            actual = self.compiled(call)
            self.assertEqual(actual[make is cnn], {expected})

    @parameterized.parameters(cnn, mlp)
    def test_what_draws_share_stands_before_their_loop(self, make: Any) -> None:
        """There TensorFlow convolves, and the loop behind it is compiled."""
        model = tfbdl.to_mc_dropout(with_dropout(make()))
        prediction = self.compiled(lambda: tfbdl.predict(model, X, 2, verbose=0))
        self.assertEqual(prediction[True], {False} if make is cnn else set())
        self.assertEqual(prediction[False], {True})

    def test_convolutions_of_random_kernels_are_compiled_with_their_loop(self) -> None:
        model = tfbdl.to_bayesian(cnn(), num_data=6)
        loops = self.compiled(lambda: tfbdl.predict(model, X, 2, verbose=0))
        self.assertIn(True, loops[True])

    @parameterized.product(layer=SLOW, dropout_first=(True, False))
    def test_slow_convolutions(self, layer: Slow, dropout_first: bool) -> None:
        """TensorFlow's in both cases, but in the loop, if they are, with all else in it."""
        model = slow(layer, dropout_first=dropout_first)
        prediction = self.compiled(lambda: tfbdl.predict(model, X, 2))
        self.assertEqual(prediction[True], {False})
        self.assertEqual(prediction[False], set() if dropout_first else {True})

    @parameterized.product(
        call=(
            lambda model: tfbdl.predict(model, X, 2, return_samples=True),
            lambda model: tfbdl.log_predictive_density(model, X, Y, 2),
        ),
        dropout_first=(True, False),
    )
    def test_slow_convolutions_in_other_loops(self, call: Any, dropout_first: bool) -> None:
        model = slow(SLOW[0], dropout_first=dropout_first)
        graphs = self.compiled(lambda: call(model))
        self.assertEqual(graphs[True], {False})
        self.assertEqual(graphs[False], set() if dropout_first else {True})

    @parameterized.parameters(*SLOW)
    def test_slow_convolutions_without_draws(self, *layer: Any) -> None:
        model = slow(Slow(*layer), dropout_first=False)
        self.assertEqual(self.compiled(lambda: tfbdl.predict(model, X, 0))[True], {False})

    @parameterized.parameters((cnn, False), (mlp, True), (rnn, True))
    def test_the_loop(self, make: Any, expected: Any) -> None:
        feed = Arrays(tf.distribute.get_strategy(), (X, Y), batch_size=3, seed=0)
        for jit_compile, by in ((None, expected), (True, True), (False, False)):
            self.assertEqual(by_xla(Steps(make(), feed, jit_compile)._run), by)

    def test_recurrent_layers_train_as_without_xla(self) -> None:
        losses = []
        for jit_compile in (None, False):
            keras.utils.set_random_seed(0)
            model = rnn()
            history = tfbdl.train(
                model, X, Y, batch_size=2, epochs=3, jit_compile=jit_compile, verbose=0
            )
            losses.append(history["loss"])
        self.assertAllClose(*losses, 1e-4)


if __name__ == "__main__":
    tf.test.main()
