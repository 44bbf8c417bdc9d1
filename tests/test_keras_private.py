"""A guard for each private name of Keras that the package uses: does it still do its work?"""

import keras
import numpy as np
import tensorflow as tf

from tfbdl import keras_private


class Listener(keras.layers.Layer):
    """Adds the inherited argument to its input, and remembers `training`."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        keras_private.inherit_call_argument(self, "offset")

    def call(self, x, training=False, offset=None):
        self.training = training
        return x if offset is None else x + offset


class Outer(keras.layers.Layer):
    def __init__(self, model):
        super().__init__()
        self.model = model
        keras_private.inherit_call_argument(self, "offset")

    def call(self, x):
        return self.model(x, training=False)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.listener = Listener()

    def call(self, x):
        return self.listener(x)


def functional(layer=None):
    layer = layer or Listener()
    inputs = keras.Input((1,))
    return keras.Model(inputs, layer(keras.layers.Dropout(0.5)(inputs)))


class InheritCallArgumentTest(tf.test.TestCase):
    def models(self):
        return {
            "layer": Listener(),
            "functional": functional(),
            "sequential": keras.Sequential([keras.Input((1,)), Listener()]),
            "subclassed": Subclassed(),
            "nested": keras.Sequential([keras.Input((1,)), functional(), Subclassed()]),
        }

    def test_reaches_all_layers_of_any_model(self):
        x = tf.constant([[1.0]])
        for name, model in self.models().items():
            outer, depth = Outer(model), 2 if name == "nested" else 1
            self.assertAllEqual(outer(x), x, name)
            self.assertAllEqual(outer(x, offset=tf.constant(5.0)), x + 5.0 * depth, name)
            self.assertAllEqual(outer(x), x, name)

    def test_is_an_argument_of_traced_functions(self):
        """Traced without it first, then with it, then called with other values."""
        x, outer = tf.constant([[1.0]]), Outer(functional())
        without = tf.function(outer)
        given = tf.function(lambda x, offset: outer(x, offset=offset), jit_compile=True)
        self.assertAllEqual(without(x), [[1.0]])
        for offset in (5.0, 7.0):
            self.assertAllEqual(given(x, tf.constant(offset)), [[1.0 + offset]])
            self.assertAllEqual(without(x), [[1.0]])
        self.assertAllEqual(outer.model(x), [[1.0]])

    def test_leaves_training_alone(self):
        listener = Listener()
        outer = Outer(functional(listener))
        outer(tf.ones([1, 1]), offset=tf.constant(1.0))
        self.assertFalse(listener.training)
        outer.model(tf.ones([1, 1]), training=True)
        self.assertTrue(listener.training)

    def test_one_layer_does_not_open_all_others(self):
        """A layer that did not ask may have an argument of that name for itself."""

        class Deaf(keras.layers.Layer):
            def call(self, x, offset=None):
                return x if offset is None else x + offset

        outer = Outer(Deaf())
        self.assertAllEqual(outer(tf.ones([1, 1]), offset=tf.constant(5.0)), [[1.0]])


class WalkTest(tf.test.TestCase):
    def test_every_layer_once_itself_first(self):
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
    def test_follows_set_random_seed(self):
        keras.utils.set_random_seed(5)
        first = [keras_private.make_default_seed() for _ in range(4)]
        keras.utils.set_random_seed(5)
        self.assertEqual(first, [keras_private.make_default_seed() for _ in range(4)])
        self.assertLen(set(first), 4)
        for seed in first:
            self.assertBetween(seed, 0, 2**31 - 1)


class BuildAllTest(tf.test.TestCase):
    X, Y = np.ones((1, 3), "float32"), np.array([1])

    def model(self):
        model = keras.Sequential(
            [keras.layers.Dense(4), keras.layers.BatchNormalization(), keras.layers.Dense(2)]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        metric = keras.metrics.SparseCategoricalAccuracy(name="acc")
        model.compile(keras.optimizers.Adam(0.1), loss, metrics=[metric])
        return model

    def test_makes_what_fit_would(self):
        built, fitted = self.model(), self.model()
        keras_private.build_all(built, (self.X, self.Y))
        fitted.fit(self.X, self.Y, verbose=0)
        for part in ("variables", "metrics_variables"):
            shapes = [[v.shape for v in getattr(m, part)] for m in (built, fitted)]
            self.assertEqual(*shapes)
        shapes = [[v.shape for v in m.optimizer.variables] for m in (built, fitted)]
        self.assertEqual(*shapes)

    def test_changes_no_state(self):
        model = self.model()
        model.build((None, 3))
        before = model.get_weights()
        keras_private.build_all(model, (self.X, self.Y))
        self.assertAllEqual(model.optimizer.iterations.value, 0)
        for a, b in zip(model.get_weights(), before, strict=True):
            self.assertAllEqual(a, b)
        self.assertAllEqual(model.metrics[0].result(), 0.0)


if __name__ == "__main__":
    tf.test.main()
