"""What is compiled of a model is forgotten when a layer of it is changed, in all of the package."""

import gc
import itertools
import threading
import weakref
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl import likelihoods
from tfbdl.graphs import operations
from tfbdl.inference import Laplace, LogPosterior
from tfbdl.keras_private import settings_of
from tfbdl.models import VAE, WeightEnsemble
from tfbdl.programs import Programs, as_graph

N = 12
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).astype("float32")
Y = RNG.normal(size=(N, 1)).astype("float32")
NOISE = likelihoods.Normal(0.5)


class ProgramsTest(tf.test.TestCase):
    def test_made_once_for_a_key_until_the_layer_changes(self) -> None:
        layer, made = keras.layers.Dense(3), itertools.count(1)
        programs = Programs(layer)

        def ask(key: Any) -> Any:
            return programs.of(key, lambda: next(made))

        self.assertEqual([ask("a"), ask("b"), ask("a")], [1, 2, 1])
        layer.activation = keras.activations.sigmoid
        self.assertEqual([ask("b"), ask("a"), ask("b")], [3, 4, 3])
        layer.build((None, 2))
        built = ask("a")
        layer(tf.ones([1, 2]))
        self.assertEqual(ask("a"), built)

    def test_held_it_is_looked_at_once(self) -> None:
        layer, made = keras.layers.Dense(3), itertools.count(1)
        programs, other = Programs(layer), Programs(layer)

        def ask(of: Any = programs) -> Any:
            return of.of("a", lambda: next(made))

        with mock.patch.object(tfbdl.programs, "settings_of", wraps=settings_of) as looked:
            with programs.held():
                self.assertEqual([ask() for _ in range(5)], [1] * 5)
                self.assertEqual(looked.call_count, 1)
                layer.activation = keras.activations.sigmoid
                self.assertEqual([ask(), ask(other)], [1, 2])
                answers = []
                thread = threading.Thread(target=lambda: answers.append(ask()))
                thread.start()
                thread.join()
                self.assertEqual(answers, [3])
            self.assertEqual([ask(), ask(other)], [3, 2])

    def test_batches_of_a_prediction_are_of_one_look(self) -> None:
        inputs = keras.Input((4,))
        model = keras.Model(inputs, tfbdl.layers.BayesDense(1, num_data=N)(inputs))
        looks = []
        for size in (N, 1):
            tfbdl.predict(model, X, 2, batch_size=size, verbose=0)
            with mock.patch.object(tfbdl.programs, "settings_of", wraps=settings_of) as looked:
                tfbdl.predict(model, X, 2, batch_size=size, verbose=0)
                tfbdl.predictive.elbo(model, X, Y, 2, batch_size=size, likelihood=NOISE)
            looks.append(looked.call_count)
        self.assertEqual(*looks)


class Scaled:
    def __init__(self, scale: Any) -> None:
        self.scale = scale
        self.ran = 0
        self.programs = Programs(keras.layers.Dropout(0.5))

    @as_graph
    def times(self, x: Any) -> Any:
        self.ran += 1
        return self.scale * x


class AsGraphTest(tf.test.TestCase):
    def test_a_graph_for_each_object_and_shape(self) -> None:
        two, three = Scaled(2.0), Scaled(3.0)
        for _ in range(3):
            for shape in ([], [4]):
                x = tf.ones(shape)
                self.assertAllEqual(two.times(x), 2.0 * x)
                self.assertAllEqual(three.times(x), 3.0 * x)
        self.assertEqual((two.ran, three.ran), (2, 2))

    def test_in_a_graph_it_is_part_of_it(self) -> None:
        scaled = Scaled(2.0)
        graph = tf.function(scaled.times).get_concrete_function(tf.ones([4])).graph
        self.assertNotIn("PartitionedCall", operations(graph))

    def test_an_object_is_given_back(self) -> None:
        scaled = Scaled(2.0)
        scaled.times(tf.ones([]))
        actual = weakref.ref(scaled)
        del scaled
        gc.collect()
        self.assertIsNone(actual())


def network(*layers: Any) -> Any:
    model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(1)])
    model.compile("sgd", NOISE)
    return model


def plain() -> Any:
    return network(keras.layers.Dense(3, "tanh"))


def log_posterior() -> Any:
    target = LogPosterior(plain(), 1.0, X, Y)
    theta = target.theta[tf.newaxis]
    return target.flat.model.layers[0], lambda: (target(theta), target.log_likelihood(theta))


def in_chunks() -> Any:
    target = LogPosterior(plain(), 1.0, X, Y, batch_size=5)
    return target.flat.model.layers[0], lambda: target(target.theta)


def ensemble() -> Any:
    model = WeightEnsemble(plain(), np.random.default_rng(1).normal(size=(3, 19)))
    return model.network.layers[0], lambda: model(X)


def autoencoder() -> Any:
    model = VAE(2, (3,), seed=1)
    pixels = np.clip(np.abs(X), 0, 1)
    model.build((None, 4))
    return model.encoder_hidden[0], lambda: model.log_likelihood(pixels, 3, seed=0)


def bound() -> Any:
    model = network(tfbdl.layers.BayesDense(3, "tanh", num_data=N, seed=1))
    return model.layers[0], lambda: tfbdl.elbo(model, X, Y, 3, seed=0)


def laplace(curvature: str = "ggn") -> Any:
    model = plain()
    weights = Laplace(model, curvature=curvature, subset_of_weights="all")

    def ask() -> Any:
        weights.fit(X, Y)
        return np.sqrt(tfbdl.predict(weights, X, verbose=0).epistemic_variance)

    return model.layers[0], ask


MAKERS = {f.__name__: f for f in (log_posterior, in_chunks, ensemble, autoencoder, bound, laplace)}


class StaleTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*MAKERS)
    def test_a_changed_activation_is_seen(self, name: str) -> None:
        keras.utils.set_random_seed(1)
        layer, ask = MAKERS[name]()
        before = ask()
        layer.activation = keras.activations.sigmoid
        after = ask()
        self.assertNotAllClose(before, after, 1e-3, 1e-3)
        keras.utils.set_random_seed(1)
        fresh, ask_afresh = MAKERS[name]()
        fresh.activation = keras.activations.sigmoid
        self.assertAllClose(after, ask_afresh(), 1e-5, 1e-5)


if __name__ == "__main__":
    tf.test.main()
