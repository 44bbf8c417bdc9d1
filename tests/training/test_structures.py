"""Training on structures of arrays, as the models take them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfbdl

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(2, 24, 1)).astype("float32")
Y = A - B
BOTH = {"a": A, "b": B}
FORMS: dict[str, Any] = {"dict": BOTH, "list": [A, B], "tuple": (A, B)}


def network(form: str = "dict") -> keras.Model:
    """A network of two inputs, with a batch normalisation."""
    keras.utils.set_random_seed(0)
    inputs = {name: keras.Input((1,), name=name) for name in "ab"}
    joined = keras.layers.Concatenate()(list(inputs.values()))
    h = keras.layers.BatchNormalization()(keras.layers.Dense(3, "tanh")(joined))
    taken = inputs if form == "dict" else type(FORMS[form])(inputs.values())
    model = keras.Model(taken, keras.layers.Dense(1)(h))
    model.compile(keras.optimizers.SGD(0.01), tfbdl.likelihoods.Normal(0.1))
    return model


@pytest.mark.parametrize("form", FORMS)
def test_trains_as_keras_does(form: str) -> None:
    """One step an epoch has all examples in it, so that their order says nothing."""
    ours, theirs = network(form), network(form)
    history = tfbdl.train(ours, FORMS[form], Y, epochs=3, batch_size=24, verbose=0)
    expected = theirs.fit(FORMS[form], Y, epochs=3, batch_size=24, verbose=0).history
    np.testing.assert_allclose(history["loss"], expected["loss"], rtol=1e-5)


def test_pairs_stay_together_when_they_are_shuffled() -> None:
    """The loss of y = a - b is 0 under the right weights, for all batches."""
    inputs = {name: keras.Input((1,), name=name) for name in "ab"}
    model = keras.Model(inputs, keras.layers.Subtract()([inputs["a"], inputs["b"]]))
    model.compile(keras.optimizers.SGD(0.01), "mse")
    history = tfbdl.train(model, BOTH, Y, epochs=2, batch_size=5, verbose=0)
    assert history["loss"] == [0.0, 0.0]


def test_a_function_of_the_epoch_gives_structures() -> None:
    def data(epoch: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices((BOTH, Y))

    streamed = tfbdl.train(network(), data, num_data=24, epochs=2, batch_size=24, verbose=0)
    whole = tfbdl.train(network(), BOTH, Y, epochs=2, batch_size=24, verbose=0)
    np.testing.assert_allclose(streamed["loss"], whole["loss"], rtol=1e-5)


class Pair(NamedTuple):
    a: Any
    b: Any


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ({"a": A, "b": B[:20]}, r"x has arrays of \[20, 24\] examples; give equally many of each"),
        ({}, "x holds no array; give at least one"),
        ({"a": A, "b": np.where(B > 1, np.nan, B)}, r"x\['b'\] is not finite in example"),
        ({"a": A, "b": "text"}, r"x\['b'\]='text' is one value; give an array of examples"),
        ({"a": A, "b": [None] * 24}, r"x\['b'\] holds None in example 0; give numbers or strings"),
        (
            {"a": A, "b": ["red"] * 23 + [np.nan]},
            r"x\['b'\] holds nan in example 23; give numbers or strings",
        ),
        ({"a": A, "b": np.array([["red", 1]] * 24, object)}, r"x\['b'\] holds 1 in example 0; "),
        (
            {"a": A, "b": np.array([["red", 1]] * 23 + [[None, 1]], object)},
            r"x\['b'\] holds None in example 23; ",
        ),
        (Pair(A, [["red"]] * 23 + [[np.nan]]), r"x\.b holds nan in example 23; "),
    ],
)
def test_refusals(x: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tfbdl.train(network(), x, Y, epochs=1, verbose=0)


def sampling() -> keras.Model:
    model = network()
    model.compile(tfbdl.optimizers.SGLD(1e-4, num_data=24), model.loss)
    return model


def variational() -> keras.Model:
    model = network()
    model.compile(tfbdl.optimizers.IVON(0.1, num_data=24, seed=1), model.loss)
    return model


@pytest.mark.parametrize(
    "make",
    [
        lambda: tfbdl.inference.MeanFieldVI(variational()),
        lambda: tfbdl.inference.SWAG(network(), rank=2),
        lambda: tfbdl.inference.SGMCMC(sampling()),
        lambda: tfbdl.inference.DeepEnsemble(network, 2),
    ],
    ids=["MeanFieldVI", "SWAG", "SGMCMC", "DeepEnsemble"],
)
def test_methods_that_train_take_dictionaries(
    make: Callable[[], Any],
) -> None:
    batches = tf.data.Dataset.from_tensor_slices((BOTH, Y)).batch(24)
    of_arrays = make().fit(BOTH, Y, epochs=2, verbose=0)
    of_batches = make().fit(batches, epochs=2, verbose=0)
    np.testing.assert_allclose(of_arrays.sample(2), of_batches.sample(2), 1e-4, 1e-5)
    means = [tfbdl.predict(p, BOTH, 2, seed=0, verbose=0).mean for p in (of_arrays, of_batches)]
    np.testing.assert_allclose(*means, rtol=1e-3, atol=1e-4)
