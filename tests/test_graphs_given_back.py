"""Graphs go when nobody needs them any more, with the variables and data that they captured."""

import gc
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized
from tensorflow.python.framework.func_graph import FuncGraph

import tfbdl
from tfbdl import tensorflow_private
from tfbdl.graphs import Compiled
from tfbdl.inference import MAP, MCMC, Laplace, LogPosterior
from tfbdl.models import VAE, WeightEnsemble
from tfbdl.tensorflow_private import custom_gradient, custom_gradients

N = 12
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).astype("float32")
Y = np.arange(N) % 3


def classifier(*layers: Any) -> Any:
    model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(3)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def bayes() -> Any:
    return classifier(tfbdl.layers.BayesDense(3, num_data=N))


def plain() -> Any:
    return classifier(keras.layers.Dense(3, "tanh"))


def train() -> None:
    tfbdl.train(bayes(), X, Y, epochs=1, batch_size=6, jit_compile=False, verbose=0)


def fit_with_a_log() -> None:
    model = bayes()
    with tempfile.TemporaryDirectory() as folder:
        logger = tfbdl.TrainLogger(Path(folder) / "train.log")
        model.fit(X, Y, verbose=0, callbacks=[logger, tfbdl.ELBOLogger()])


def predict() -> None:
    tfbdl.predict(bayes(), X, 2, jit_compile=False, verbose=0)


def elbo() -> None:
    tfbdl.elbo(bayes(), X, Y, 2, jit_compile=False)


def laplace() -> None:
    tfbdl.predict(Laplace(plain(), jit_compile=False).fit(X, Y), X, verbose=0)


def log_posterior() -> None:
    target = LogPosterior(plain(), 1.0, X, Y, batch_size=5)
    theta = tf.Variable(target.theta)
    with tf.GradientTape() as tape:
        value = target(theta)
    tape.gradient(value, theta)


def chains() -> None:
    few = {"kernel": "hmc", "num_warmup": 20, "num_samples": 10, "jit_compile": False}
    MCMC(plain(), 1.0, **few).fit(X, Y, verbose=0)


def mode() -> None:
    MAP(lambda t: -tf.reduce_sum(t**2, 1), initial=[1.0], jit_compile=False).fit()


def ensemble() -> None:
    WeightEnsemble(plain(), RNG.normal(size=(2, 27)))(X)


def autoencoder() -> None:
    vae = VAE(2, (3,))
    vae.compile("sgd")
    vae.elbo(np.abs(X).clip(0, 1))


CALLS = {
    f.__name__: f
    for f in (
        train,
        fit_with_a_log,
        predict,
        elbo,
        laplace,
        log_posterior,
        chains,
        mode,
        ensemble,
        autoencoder,
    )
}


def graphs() -> Any:
    gc.collect()
    return sorted(g.name for g in gc.get_objects() if isinstance(g, FuncGraph))


class GivenBackTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(*CALLS)
    def test_a_second_call_adds_none(self, name: str) -> None:
        CALLS[name]()
        before, gradients = graphs(), custom_gradients()
        CALLS[name]()
        self.assertEqual(graphs(), before)
        self.assertLessEqual(len(custom_gradients()), len(gradients))


@custom_gradient
def twice(x: Any) -> Any:
    return x * x, lambda upstream: upstream * 2.0 * x


class CustomGradientTest(tf.test.TestCase):
    def test_eagerly_in_graphs_and_through_them(self) -> None:
        x = tf.constant(3.0)
        inner = tf.function(twice)
        for function in (
            twice,
            inner,
            tf.function(inner),
            tf.function(twice, autograph=False),
            Compiled(twice, jit_compile=True),
            tf.function(lambda x: tf.map_fn(twice, x[tf.newaxis])[0]),
            tf.function(
                lambda x: tf.while_loop(lambda i, _: i < 1, lambda i, x: (i + 1, twice(x)), (0, x))[
                    1
                ]
            ),
        ):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function(x)
            self.assertEqual((float(y), float(tape.gradient(y, x))), (9.0, 6.0))
            self.assertEqual(
                float(tf.function(lambda x, f=function: tf.gradients(f(x), x)[0])(x)), 6.0
            )

    def test_an_inner_graph_outlives_the_outer_one(self) -> None:
        """The outer graph traced it, and its gradients go."""
        inner = tf.function(twice)
        x = tf.constant(3.0)
        Compiled(inner, jit_compile=False)(x)
        gc.collect()
        for _ in range(2):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = inner(x)
            self.assertEqual(float(tape.gradient(y, x)), 6.0)
            outer = Compiled(lambda x: tf.gradients(inner(x), x)[0], jit_compile=False)
            self.assertEqual(float(outer(x)), 6.0)
            del outer
            gc.collect()

    def test_some_die_while_others_are_let_go(self) -> None:
        """Cycles of graphs are collected at any moment, also between two gradients."""
        listed = custom_gradients() | {"CustomGradient-gone"}
        with mock.patch.object(tensorflow_private, "custom_gradients", return_value=listed):
            tensorflow_private.let_gradients_die(set())
        self.assertNotIn("CustomGradient-gone", custom_gradients())


if __name__ == "__main__":
    tf.test.main()
