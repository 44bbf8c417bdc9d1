"""Keras with TensorFlow and nothing else: floors, and what one would write without this package."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from collections.abc import Callable
from functools import partial

import keras
import numpy as np
import tensorflow as tf
import work

Round = Callable[[], dict[str, float]]


def fit(model: keras.Model, *arrays: np.ndarray, batch: int = work.BATCH) -> Round:
    """An epoch of `fit`, compiled by XLA."""

    def run() -> dict[str, float]:
        model.fit(*arrays, batch_size=batch, epochs=1, verbose=0)
        return {"units": len(arrays[0]) // batch}

    return run


def deterministic(sizes: tuple[int, ...] = work.NETWORK, batch: int = work.BATCH) -> Round:
    """Steps of single weights."""
    stack = [keras.layers.Dense(n, "relu") for n in sizes[1:-1]]
    model = keras.Sequential([keras.Input((sizes[0],)), *stack, keras.layers.Dense(sizes[-1])])
    return fit(compiled(model), *work.images(work.STEPS * batch), batch=batch)


def compiled(model: keras.Model) -> keras.Model:
    """For classification with Adam."""
    model.compile(
        keras.optimizers.Adam(work.LEARNING_RATE),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=True,
    )
    return model


bbb_one = bbb_local = bbb_flipout = sgld = sghmc = deterministic


def bbb_wide() -> Round:
    """Steps of single weights in the wide network."""
    return deterministic(work.WIDE, work.WIDE_BATCH)


class PlainVAE(keras.Model):
    """A VAE as in Keras' examples."""

    def __init__(self) -> None:
        super().__init__()
        relu = [keras.layers.Dense(500, "relu") for _ in range(4)]
        self.encoder = keras.Sequential([*relu[:2], keras.layers.Dense(40)])
        self.decoder = keras.Sequential([*relu[2:], keras.layers.Dense(784)])

    def call(self, x: tf.Tensor) -> tf.Tensor:
        mu, log_variance = tf.split(self.encoder(x), 2, axis=-1)
        z = mu + tf.exp(0.5 * log_variance) * tf.random.normal(tf.shape(mu))
        logits = self.decoder(z)
        kl = 0.5 * tf.reduce_sum(mu**2 + tf.exp(log_variance) - log_variance - 1.0, axis=-1)
        pixels = tf.nn.sigmoid_cross_entropy_with_logits(x, logits)
        self.add_loss(tf.reduce_mean(kl + tf.reduce_sum(pixels, axis=-1)))
        return logits


def vae(num_data: int = 1000) -> Round:
    """An epoch of that, by `fit`."""
    model = PlainVAE()
    model.compile(keras.optimizers.Adam(work.LEARNING_RATE), jit_compile=True)
    run = fit(model, work.images(num_data)[0])
    return lambda: {**run(), "units": 1}


vae_full = partial(vae, 60_000)


class Concrete(keras.layers.Layer):
    """Gal's wrapper, re-stated: a Dense layer behind dropout with a learned rate."""

    def __init__(self, layer: keras.layers.Dense, num_data: int) -> None:
        super().__init__()
        self.layer, self.num_data = layer, num_data

    def build(self, shape: tuple[int, ...]) -> None:
        self.logit = self.add_weight(shape=(), initializer=keras.initializers.Constant(-2.2))
        self.layer.build(shape)
        self.inputs = shape[-1]

    def call(self, x: tf.Tensor) -> tf.Tensor:
        p = tf.sigmoid(self.logit)
        u = tf.random.uniform(tf.shape(x))
        eps = 1e-7
        gate = tf.math.log(p + eps) - tf.math.log(1.0 - p + eps)
        gate += tf.math.log(u + eps) - tf.math.log(1.0 - u + eps)
        keep = 1.0 - tf.sigmoid(gate / 0.1)
        squares = 1e-4 / self.num_data * tf.reduce_sum(self.layer.kernel**2) / (1.0 - p)
        entropy = p * tf.math.log(p) + (1.0 - p) * tf.math.log(1.0 - p)
        self.add_loss(squares + self.inputs / self.num_data * entropy)
        return self.layer(x * keep / (1.0 - p))


def concrete() -> Round:
    """Steps of three of them."""
    n = work.STEPS * work.BATCH
    stack = [
        keras.layers.Dense(500, "relu"),
        keras.layers.Dense(500, "relu"),
        keras.layers.Dense(10),
    ]
    model = keras.Sequential([keras.Input((784,)), *(Concrete(layer, n) for layer in stack)])
    return fit(compiled(model), *work.images(n))


def mc_dropout() -> Round:
    """The loop of the usual recipe, compiled."""
    stack = []
    for _ in range(2):
        stack += [keras.layers.Dense(500, "relu"), keras.layers.Dropout(0.5)]
    model = keras.Sequential([keras.Input((784,)), *stack, keras.layers.Dense(10)])
    x = tf.constant(work.images(1000)[0])
    one = tf.function(lambda x: tf.nn.softmax(model(x, training=True)))

    def run() -> dict[str, float]:
        draws = tf.stack([one(x) for _ in range(work.DRAWS)])
        tf.math.reduce_std(draws, axis=0).numpy()
        return {"units": 1}

    return run
