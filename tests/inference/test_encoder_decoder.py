"""Sequences to sequences: states of one recurrent layer start another, and masks are handed on."""

from __future__ import annotations

from typing import Any

import brute_force
import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf
from keras import layers as L

import tfbdl
from tfbdl import likelihoods
from tfbdl.inference import Laplace

RNG = np.random.default_rng(3)
NUM, C, WORDS, DELTA = 6, 3, 7, 0.9
FROM = RNG.integers(1, WORDS, (NUM, 5)) * (np.arange(5) < RNG.integers(1, 6, (NUM, 1)))
LENGTHS = RNG.integers(1, 5, (NUM, 1))
TO = RNG.integers(1, WORDS, (NUM, 4)) * (np.arange(4) < LENGTHS)
Y = RNG.integers(0, C, (NUM, 4))
X = [FROM, TO]


def translator(kind: str) -> keras.Model:
    """An encoder whose states the decoder begins with; both leave out padded words."""
    keras.utils.set_random_seed(0)
    source, target = keras.Input((5,), dtype="int32"), keras.Input((4,), dtype="int32")
    words = L.Embedding(WORDS, 3, mask_zero=True)
    layer = getattr(L, kind)
    states = layer(4, return_state=True, name="encoder")(words(source))[1:]
    h = layer(4, return_sequences=True, name="decoder")(words(target), initial_state=states)
    model = keras.Model([source, target], L.Dense(C, name="head")(L.Dropout(0.2)(h)))
    return brute_force.randomised(model)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_conversions_compute_the_same(kind: str) -> None:
    model = translator(kind)
    expected = model(X, training=False)
    for converted in (tfbdl.to_mc_dropout(model), tfbdl.to_bayesian(model, num_data=NUM)):
        np.testing.assert_allclose(converted(X, training=False), expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_curvature_of_the_words_that_are_there(kind: str) -> None:
    """The generalised Gauss-Newton matrix of all weights, written out by hand."""
    model = translator(kind)
    settings: dict[str, Any] = {"subset_of_weights": "all", "hessian_structure": "full"}
    settings |= {"prior_precision": DELTA, "dtype": "float64", "jit_compile": False}
    laplace = Laplace(model, likelihoods.Categorical(), **settings).fit(X, Y, batch_size=4)
    weights = [v.value for v in model.trainable_variables]
    with tf.GradientTape(persistent=True) as tape:
        f = model([tf.constant(x) for x in X])
        numbers = tf.unstack(tf.reshape(f, [-1]))
    rows = [tape.gradient(n, weights, unconnected_gradients="zero") for n in numbers]
    flat = [np.concatenate([np.ravel(tf.convert_to_tensor(g)) for g in row]) for row in rows]
    there = TO > 0
    j = np.reshape(flat, [*f.shape, -1]).astype("float64")[there]
    p = scipy.special.softmax(f.numpy().astype("float64"), axis=-1)[there]
    fisher = [np.diag(q) - np.outer(q, q) for q in p]
    expected = np.einsum("nca,ncd,ndb->ab", j, fisher, j)
    got = brute_force.precision(laplace) - DELTA * np.eye(len(expected))
    np.testing.assert_allclose(got, expected, 1e-3, 1e-4 * np.abs(expected).max())
