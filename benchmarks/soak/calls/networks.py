"""Small networks on the inputs of `case`."""

from __future__ import annotations

from functools import cache
from typing import Any

import keras

from soak.calls.case import N
from tfbdl import layers, likelihoods

CROSSENTROPY = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def network(*layers: keras.layers.Layer, loss: Any = None, optimizer: Any = "sgd") -> keras.Model:
    """A network on `X`, with these layers, compiled."""
    model = keras.Sequential([keras.Input((4,)), *layers])
    model.compile(optimizer, loss, jit_compile=False)
    return model


def classifier() -> keras.Model:
    """A network without anything random."""
    return network(
        keras.layers.Dense(3, "tanh"), keras.layers.Dense(3), loss=CROSSENTROPY, optimizer="adam"
    )


def regression() -> keras.Model:
    """A network with one output."""
    return network(keras.layers.Dense(3, "tanh"), keras.layers.Dense(1), loss="mse")


def random_network(posterior: str = "mean_field", seed: int = 1) -> keras.Model:
    """A small Bayesian network of three classes."""
    dense = layers.BayesDense(3, num_data=N, posterior=posterior, seed=seed)
    return network(dense, loss=CROSSENTROPY)


def dropout_network(rate: float = 0.5) -> keras.Model:
    """A network that is random and has a KL, and whose training is quickly compiled."""
    dense = layers.BayesDense(3, num_data=N, posterior="point", seed=1)
    return network(layers.MCDropout(rate, seed=1), dense, loss=CROSSENTROPY)


@cache
def kept_network(seed: int = 1) -> keras.Model:
    """One for calls that leave it as it is."""
    return random_network(seed=seed)


def normalised(activation: str | None = None) -> keras.Model:
    """A small network that keeps statistics."""
    return network(keras.layers.BatchNormalization(), keras.layers.Dense(3, activation))


def line(scale: float = 1.0) -> keras.Model:
    """A network of five weights, and the noise beside it."""
    dense = keras.layers.Dense(1, kernel_initializer="ones")
    return network(dense, loss=likelihoods.Normal(scale))


def noisy() -> keras.Model:
    """A network with a hidden layer, and the noise beside it."""
    hidden = keras.layers.Dense(3, "tanh")
    return network(hidden, keras.layers.Dense(1), loss=likelihoods.Normal(0.7))
