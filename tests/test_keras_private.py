"""A guard for each private name of Keras that the package uses: does it still do its work?"""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl import keras_private, keras_private_training
from tfbdl.keras_private_graphs import rebuild
from tfbdl.keras_private_layers import last_layers


class Listener(keras.layers.Layer):
    """Adds the inherited argument to its input, and remembers `training`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        keras_private.inherit_call_argument(self, "offset")

    def call(self, x: Any, training: bool = False, offset: Any = None) -> Any:
        self.training = training
        return x if offset is None else x + offset


class Outer(keras.layers.Layer):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        keras_private.inherit_call_argument(self, "offset")

    def call(self, x: Any) -> Any:
        return self.model(x, training=False)


class Subclassed(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.listener = Listener()

    def call(self, x: Any) -> Any:
        return self.listener(x)


def functional(layer: Any = None) -> keras.Model:
    layer = layer or Listener()
    inputs = keras.Input((1,))
    return keras.Model(inputs, layer(keras.layers.Dropout(0.5)(inputs)))


class InheritCallArgumentTest(tf.test.TestCase):
    def models(self) -> Any:
        return {
            "layer": Listener(),
            "functional": functional(),
            "sequential": keras.Sequential([keras.Input((1,)), Listener()]),
            "subclassed": Subclassed(),
            "nested": keras.Sequential([keras.Input((1,)), functional(), Subclassed()]),
        }

    def test_reaches_all_layers_of_any_model(self) -> None:
        x = tf.constant([[1.0]])
        for name, model in self.models().items():
            outer, depth = Outer(model), 2 if name == "nested" else 1
            self.assertAllEqual(outer(x), x, name)
            self.assertAllEqual(outer(x, offset=tf.constant(5.0)), x + 5.0 * depth, name)
            self.assertAllEqual(outer(x), x, name)

    def test_is_an_argument_of_traced_functions(self) -> None:
        """Traced without it first, then with it, then called with other values."""
        x, outer = tf.constant([[1.0]]), Outer(functional())
        without = tf.function(outer)
        given = tf.function(lambda x, offset: outer(x, offset=offset), jit_compile=True)
        self.assertAllEqual(without(x), [[1.0]])
        for offset in (5.0, 7.0):
            self.assertAllEqual(given(x, tf.constant(offset)), [[1.0 + offset]])
            self.assertAllEqual(without(x), [[1.0]])
        self.assertAllEqual(outer.model(x), [[1.0]])

    def test_leaves_training_alone(self) -> None:
        listener = Listener()
        outer = Outer(functional(listener))
        outer(tf.ones([1, 1]), offset=tf.constant(1.0))
        self.assertFalse(listener.training)
        outer.model(tf.ones([1, 1]), training=True)
        self.assertTrue(listener.training)

    def test_one_layer_does_not_open_all_others(self) -> None:
        """A layer that did not ask may have an argument of that name for itself."""

        class Deaf(keras.layers.Layer):
            def call(self, x: Any, offset: Any = None) -> Any:
                return x if offset is None else x + offset

        outer = Outer(Deaf())
        self.assertAllEqual(outer(tf.ones([1, 1]), offset=tf.constant(5.0)), [[1.0]])


class LastLayersTest(tf.test.TestCase):
    def test_of_each_output(self) -> None:
        """Behind layers without weights and inside models."""
        a, b, c = (keras.layers.Dense(1, name=name) for name in "abc")
        inputs, inner = keras.Input((1,)), keras.Input((1,))
        h = a(inputs)
        nested = keras.Model(inner, keras.layers.ReLU()(c(inner)))
        outputs = {"x": keras.layers.ReLU()(b(h)), "y": nested(h) + 1.0}
        self.assertEqual(last_layers(keras.Model(inputs, outputs)), [b, c])
        self.assertEqual(last_layers(keras.Model(inputs, b(h))), [b])
        self.assertEqual(last_layers(keras.Model(inputs, b(h) + nested(h))), [b, c])
        self.assertEqual(last_layers(keras.Model(inputs, [b(h), b(h)])), [b])
        self.assertEqual(last_layers(keras.Sequential([b])), [])


class WalkTest(tf.test.TestCase):
    def test_every_layer_once_itself_first(self) -> None:
        shared = keras.layers.Dense(1, name="shared")
        inner = keras.Sequential([keras.Input((1,)), keras.layers.ReLU(name="relu"), shared])
        inputs = keras.Input((1,))
        outer = Outer(Listener(name="listener"))
        model = keras.Model(inputs, outer(shared(inner(shared(inputs)))))
        walked = list(keras_private.walk(model))
        self.assertIs(walked[0], model)
        self.assertLen({id(layer) for layer in walked}, len(walked))
        names = [layer.name for layer in walked]
        for name in ("shared", "relu", "listener", inner.name):
            self.assertEqual(names.count(name), 1, names)


class MakeDefaultSeedTest(tf.test.TestCase):
    def test_follows_set_random_seed(self) -> None:
        keras.utils.set_random_seed(5)
        first = [keras_private.make_default_seed() for _ in range(4)]
        keras.utils.set_random_seed(5)
        self.assertEqual(first, [keras_private.make_default_seed() for _ in range(4)])
        self.assertLen(set(first), 4)
        for seed in first:
            self.assertBetween(seed, 0, 2**31 - 1)


class CompiledMetricsTest(tf.test.TestCase):
    def test_as_they_were_given(self) -> None:
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        self.assertEqual(keras_private_training.compiled_metrics(model), [])
        model.compile("sgd", "mse")
        self.assertEqual(keras_private_training.compiled_metrics(model), [])
        metric, function = keras.metrics.MeanSquaredError(), keras.losses.mean_absolute_error
        model.compile("sgd", "mse", metrics=["mae", metric], weighted_metrics=[function])
        for _ in range(2):
            self.assertEqual(
                keras_private_training.compiled_metrics(model), ["mae", metric, function]
            )
            model.fit(np.ones((1, 3)), np.ones((1, 2)), verbose=0)

    def test_of_several_outputs(self) -> None:
        inputs = keras.Input((3,))
        outputs = {name: keras.layers.Dense(1, name=name)(inputs) for name in "ab"}
        model = keras.Model(inputs, outputs)
        model.compile("sgd", {"a": "mse", "b": "mse"}, metrics={"a": ["mae"], "b": None})
        self.assertEqual(keras_private_training.compiled_metrics(model), ["mae"])

    def test_wrapped_function(self) -> None:
        function = keras.losses.mean_absolute_error
        wrapper = keras.metrics.MeanMetricWrapper(function)
        self.assertIs(keras_private_training.wrapped_function(wrapper), function)
        self.assertIsNone(
            keras_private_training.wrapped_function(keras.metrics.MeanAbsoluteError())
        )
        self.assertIsNone(keras_private_training.wrapped_function("mae"))


class BuildAllTest(tf.test.TestCase):
    X, Y = np.ones((1, 3), "float32"), np.array([1])

    def model(self) -> Any:
        model = keras.Sequential(
            [keras.layers.Dense(4), keras.layers.BatchNormalization(), keras.layers.Dense(2)]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        metric = keras.metrics.SparseCategoricalAccuracy(name="acc")
        model.compile(keras.optimizers.Adam(0.1), loss, metrics=[metric])
        return model

    def test_makes_what_fit_would(self) -> None:
        built, fitted = self.model(), self.model()
        keras_private.build_all(built, (self.X, self.Y))
        fitted.fit(self.X, self.Y, verbose=0)
        for part in ("variables", "metrics_variables"):
            shapes = [[v.shape for v in getattr(m, part)] for m in (built, fitted)]
            self.assertEqual(*shapes)
        shapes = [[v.shape for v in m.optimizer.variables] for m in (built, fitted)]
        self.assertEqual(*shapes)

    def test_changes_no_state(self) -> None:
        model = self.model()
        model.build((None, 3))
        before = model.get_weights()
        keras_private.build_all(model, (self.X, self.Y))
        self.assertAllEqual(model.optimizer.iterations.value, 0)
        for a, b in zip(model.get_weights(), before, strict=True):
            self.assertAllEqual(a, b)
        self.assertAllEqual(model.metrics[0].result(), 0.0)


class IsGraphTest(tf.test.TestCase):
    def test_what_is_one(self) -> None:
        class Named(keras.Model):
            """Functional, as the models of keras_hub are."""

        class Own(keras.Sequential):
            def call(self, x: Any) -> Any:
                return -super().call(x)

        stack = keras.Sequential([keras.Input((1,)), Listener()])
        graphs = functional(), stack, Named(stack.inputs, stack.outputs)
        others = Listener(), Subclassed(), keras.Sequential([Listener()]), Own([stack])
        self.assertEqual([keras_private.is_graph(model) for model in graphs], [True] * 3)
        self.assertEqual([keras_private.is_graph(model) for model in others], [False] * 4)

    def test_a_sequential_model_is_one_once_it_is_called(self) -> None:
        model = keras.Sequential([keras.layers.Dense(2)])
        model(tf.ones([3, 1]))
        self.assertTrue(keras_private.is_graph(model))


class RebuildTest(tf.test.TestCase):
    def again(self, model: Any) -> Any:
        made = {}

        def replace(layer: Any) -> Any:
            if layer.name not in made:
                made[layer.name] = type(layer).from_config(layer.get_config())
            return made[layer.name]

        rebuilt = rebuild(model, replace)
        rebuilt.set_weights(model.get_weights())
        return rebuilt

    def test_same_graph_of_other_layers(self) -> None:
        a = keras.Input((3,), name="a", batch_size=2)
        b = keras.Input((3,), name="b", dtype="float64", optional=True)
        shared = keras.layers.Dense(3, name="shared")
        y = shared(a) * 2.0 + shared(keras.ops.cast(b, "float32"))[:, ::-1]
        model = keras.Model({"a": a, "b": b}, {"y": y, "twice": [shared(y)]}, name="mine")
        model.compile("adam", lambda y, f: f)
        rebuilt = self.again(model)
        x = {"a": np.ones((2, 3), "float32"), "b": np.arange(6.0).reshape(2, 3)}
        keras.tree.map_structure(self.assertAllEqual, rebuilt(x), model(x))
        self.assertEqual(rebuilt.name, "mine")
        for old, new in zip(model.layers, rebuilt.layers, strict=True):
            self.assertEqual(old.name, new.name)
            self.assertIsNot(old, new)
            if isinstance(old, keras.layers.InputLayer):
                self.assertEqual(old.get_config(), new.get_config())
        self.assertLen(model.get_layer("shared")._inbound_nodes, 3)
        self.assertFalse(rebuilt.compiled)

    def test_sequential(self) -> None:
        model = keras.Sequential([keras.Input((3,), name="x"), keras.layers.Dense(2)], name="mine")
        rebuilt, x = self.again(model), tf.ones([4, 3])
        self.assertIs(type(rebuilt), keras.Sequential)
        self.assertAllEqual(rebuilt(x), model(x))
        self.assertEqual((rebuilt.name, rebuilt.inputs[0].name), ("mine", "x"))


class CopyLambdaTest(tf.test.TestCase):
    def test_has_the_functions_themselves(self) -> None:
        layer = keras.layers.Lambda(
            lambda x, by: by * x,
            output_shape=lambda shape: shape,
            mask=lambda x, mask: mask,
            arguments={"by": 3.0},
            name="mine",
        )
        copied = keras_private.copy_lambda(layer)
        self.assertIsNot(copied, layer)
        self.assertAllEqual(copied(tf.ones([2])), [3.0, 3.0])
        self.assertEqual(copied.compute_output_shape((2, 5)), (2, 5))
        self.assertEqual((copied.name, copied.mask), ("mine", layer.mask))


class Holder(keras.layers.Layer):
    """Layers under attributes, in containers, twice, and in a circle."""

    def __init__(self, twice: bool = False, more: Any = ()) -> None:
        super().__init__()
        self.one = keras.layers.Dense(1, name="one")
        self.again = self.one if twice else keras.layers.Dense(1, name="again")
        self.some = [keras.layers.Dense(1, name="some"), 3.0, *more]
        self.named = {"a": keras.layers.Dense(1, name="a"), 1: None}
        self.inner = Outer(functional(Listener(name="listener")))
        self.inner.around = self


class ForwardPassTest(tf.test.TestCase):
    def test_is_one_object_for_all_layers_of_a_call(self) -> None:
        seen: list[object] = []

        class Looks(keras.layers.Layer):
            def call(self, x: Any) -> Any:
                seen.append(keras_private.forward_pass())
                return x

        layer = Looks()
        model = keras.Sequential([keras.Input((1,)), layer, keras.Sequential([layer, Looks()])])
        model(tf.ones((2, 1)))
        for call in (model, tf.function(model)):
            seen.clear()
            call(tf.ones((2, 1)))
            self.assertLen({id(now) for now in seen}, 1)
            self.assertIsNotNone(seen[0])
            self.assertIsNone(keras_private.forward_pass())


class PairLayersTest(tf.test.TestCase):
    def test_pairs_by_place(self) -> None:
        """A layer in two places of the original does not move the others."""
        layer, other = Holder(twice=True), Holder()
        pairs = list(keras_private.pair_layers(layer, other))
        self.assertIs(pairs[0][0], layer)
        self.assertIs(pairs[0][1], other)
        others = {b.name: a for a, b in pairs}
        self.assertLen(others, len(pairs))
        self.assertIs(others["one"], layer.one)
        self.assertIs(others["again"], layer.one)
        self.assertIs(others["some"], layer.some[0])
        self.assertIs(others["a"], layer.named["a"])
        self.assertIs(others["listener"], layer.inner.model.layers[-1])
        self.assertEqual({id(b) for _, b in pairs}, {id(v) for v in keras_private.walk(other)})

    def test_lists_of_other_lengths(self) -> None:
        with self.assertRaises(ValueError):
            list(keras_private.pair_layers(Holder(more=[Listener()]), Holder()))


class BatchesSeenTest(tf.test.TestCase):
    def test_more_than_steps_where_gradients_accumulate(self) -> None:
        w = keras.Variable([1.0])
        inner = keras.optimizers.SGD(gradient_accumulation_steps=2)
        scaled = keras.optimizers.LossScaleOptimizer(inner)
        scaled.build([w])
        for batch in range(5):
            self.assertEqual(int(keras_private_training.batches_seen(scaled)), batch)
            self.assertEqual(int(keras_private_training.batches_seen(inner)), batch)
            self.assertEqual(int(scaled.iterations), batch // 2)
            scaled.apply([tf.ones(1)], [w])


if __name__ == "__main__":
    tf.test.main()


def test_masks_travel_on_tensors() -> None:
    """As layers hand them on, in eager calls and graphs."""
    tokens = np.array([[1, 2, 0]])
    model = keras.Sequential([keras.Input((3,)), keras.layers.Embedding(5, 2, mask_zero=True)])
    np.testing.assert_array_equal(keras_private.keras_mask(model(tokens)), tokens != 0)
    masks = tf.function(lambda x: keras_private.keras_mask(model(x)))
    np.testing.assert_array_equal(masks(tf.constant(tokens)), tokens != 0)
    outputs = tf.zeros([1, 3])
    assert keras_private.keras_mask(outputs) is None
    keras_private.set_keras_mask(outputs, tf.constant([[True, False, True]]))
    np.testing.assert_array_equal(keras_private.keras_mask(outputs), [[True, False, True]])


def test_losses_are_reduced_as_keras_does() -> None:
    values, weights = tf.constant([1.0, 2.0, 4.0]), np.array([1.0, 0.0, 2.0])
    for reduction, expected in (
        ("sum", 9.0),
        ("sum_over_batch_size", 3.0),
        (None, [1.0, 0.0, 8.0]),
    ):
        loss = keras.losses.MeanSquaredError(reduction=reduction)
        got = keras_private_training.reduced(loss, values, weights)
        np.testing.assert_allclose(got, expected)
