"""Weights of positions and of a VAE's examples, and a held-out share: as Keras' `fit` has them."""

from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import tfbdl
from tfbdl import inference, likelihoods, models

N, T, C = 12, 4, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, T, 2)).astype("float32")
LABELS = RNG.integers(0, C, (N, T))
REAL = RNG.normal(size=(N, T, 1)).astype("float32")
OF_POSITIONS = RNG.uniform(0, 2, (N, T)).astype("float32")
OF_EXAMPLES = RNG.uniform(0, 2, N).astype("float32")
PIXELS = RNG.uniform(size=(N, 5)).astype("float32")


def tagger(several: bool = False) -> keras.Model:
    keras.utils.set_random_seed(1)
    inputs = keras.Input((T, 2))
    h = keras.layers.Dense(4, "tanh")(inputs)
    classes, number = keras.layers.Dense(C, name="a")(h), keras.layers.Dense(1, name="b")(h)
    losses = {"a": likelihoods.Categorical(), "b": likelihoods.Normal(0.5)}
    outputs = {"a": classes, "b": number} if several else classes
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.1), losses if several else losses["a"])
    return model


def assert_same_weights(ours: keras.Model, theirs: keras.Model) -> None:
    for a, b in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-6)


WEIGHTS = {
    "positions": (False, LABELS, OF_POSITIONS),
    "of outputs": (True, {"a": LABELS, "b": REAL}, {"a": OF_POSITIONS, "b": OF_EXAMPLES}),
    "of both": (True, {"a": LABELS, "b": REAL}, {"a": OF_POSITIONS, "b": OF_POSITIONS[::-1]}),
}


@pytest.mark.parametrize("form", ["arrays", "data set"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_are_those_of_keras(name: str, form: str) -> None:
    several, y, weights = WEIGHTS[name]
    ours, theirs = tagger(several), tagger(several)
    given: Any = {"x": X, "y": y, "sample_weight": weights, "batch_size": N}
    if form == "data set":
        given = {"x": tf.data.Dataset.from_tensors((X, y, weights))}
    got = tfbdl.train(
        ours, **given, validation_data=(X, y, weights), epochs=1, verbose=0, jit_compile=False
    )
    expected = theirs.fit(
        X, y, sample_weight=weights, validation_data=(X, y, weights), batch_size=N, verbose=0
    ).history
    assert_same_weights(ours, theirs)
    for loss in ("loss", "val_loss"):
        np.testing.assert_allclose(got[loss], expected[loss], 1e-5)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (OF_POSITIONS[:, 1:], r"^sample_weight has shape \(12, 3\); give one weight for each"),
        (-OF_POSITIONS, "^sample_weight is -.* in example 0; give weights of at least 0$"),
        (0 * OF_POSITIONS, "^sample_weight is 0 for all examples; give one that counts$"),
        (np.nan * OF_POSITIONS, "^sample_weight is not finite in example 0; "),
    ],
)
def test_weights_of_positions_that_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tfbdl.train(tagger(), X, LABELS, sample_weight=weights, epochs=1, verbose=0)


SPLITS = {
    "arrays": (False, X, LABELS, None),
    "weights": (False, X, LABELS, OF_EXAMPLES),
    "structures": (True, X, {"a": LABELS, "b": REAL}, {"a": OF_POSITIONS, "b": OF_EXAMPLES}),
}


@pytest.mark.parametrize("name", SPLITS)
def test_a_held_out_share_is_that_of_keras(name: str) -> None:
    """The last examples, before any are shuffled."""
    several, x, y, weights = SPLITS[name]
    ours, theirs = tagger(several), tagger(several)
    given: Any = {"sample_weight": weights, "validation_split": 0.3, "batch_size": 8, "epochs": 2}
    got = tfbdl.train(ours, x, y, **given, verbose=0, jit_compile=False)
    expected = theirs.fit(x, y, **given, shuffle=False, verbose=0).history
    assert_same_weights(ours, theirs)  # of 8 examples, in one batch
    np.testing.assert_allclose(got["val_loss"], expected["val_loss"], 1e-5)


def test_a_share_of_a_table_and_of_methods() -> None:
    def line() -> keras.Model:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1), likelihoods.Normal(0.5))
        return model

    x, y = X[:, 0], REAL[:, 0]
    given: Any = {"epochs": 3, "verbose": 0, "batch_size": 3}
    expected = tfbdl.train(line(), x[:9], y[:9], validation_data=(x[9:], y[9:]), **given)
    table = pd.DataFrame(x, columns=["a", "b"])
    got = tfbdl.train(line(), table, pd.Series(y[:, 0]), validation_split=0.25, **given)
    np.testing.assert_allclose(got["val_loss"], expected["val_loss"], 1e-5)
    both = tfbdl.train(
        line(), x[:9], y[:9], validation_split=0.5, validation_data=(x[9:], y[9:]), **given
    )
    assert both == expected
    swag = inference.SWAG(line(), rank=2)
    swag.fit(x, y, validation_split=0.25, columns=["val_loss"], **given)
    plain = inference.SWAG(line(), rank=2).fit(x[:9], y[:9], **given)
    np.testing.assert_allclose(swag.mean, plain.mean, 1e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"validation_split": 1.0}, r"^validation_split=1.0 must be in \[0, 1\)$"),
        ({"validation_split": 0.99}, "^validation_split=0.99 of 12 examples leaves one side empty"),
        ({"validation_split": 0.5, "y": LABELS[:5]}, r"^x, y and .* have \[5, 12\] examples; give"),
        (
            {"x": tf.data.Dataset.from_tensors((X, LABELS)), "y": None, "validation_split": 0.5},
            "^validation_split is for arrays, but x is a tf.data.Dataset; give validation_data$",
        ),
        (
            {"x": lambda *_: None, "y": None, "num_data": N, "validation_split": 0.5},
            "^validation_split is for arrays, but x is a function; give validation_data$",
        ),
    ],
)
def test_shares_that_are_refused(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tfbdl.train(tagger(), **{"x": X, "y": LABELS, "epochs": 1, "verbose": 0, **given})


def vae(rate: float = 0.1) -> models.VAE:
    keras.utils.set_random_seed(1)
    model = models.VAE(2, (4,), seed=3)
    model.build((None, 5))
    model.compile(keras.optimizers.SGD(rate))
    return model


def test_a_weight_of_a_vae_weighs_the_whole_bound() -> None:
    """KL and likelihood of an example: by hand, with the same noise."""
    ours, by_hand = vae(), vae()
    history = ours.fit(
        PIXELS, sample_weight=OF_EXAMPLES, batch_size=N, shuffle=False, verbose=0
    ).history
    with tf.GradientTape() as tape:
        by_hand(PIXELS, training=True)
        log_likelihood, kl = by_hand.bound
        loss = tf.reduce_mean(OF_EXAMPLES * (kl - log_likelihood))
    trained = [v.value for v in by_hand.trainable_variables]
    for v, gradient in zip(trained, tape.gradient(loss, trained), strict=True):
        v.assign_sub(0.1 * gradient)
    np.testing.assert_allclose(history["loss"], loss, 1e-5)
    np.testing.assert_allclose(history["elbo"], -loss, 1e-5)
    for a, b in zip(ours.trainable_variables, by_hand.trainable_variables, strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-6)
    evaluated = ours.evaluate(PIXELS, sample_weight=OF_EXAMPLES, verbose=0, return_dict=True)
    ours(PIXELS)
    expected = np.mean(OF_EXAMPLES * (ours.bound.log_likelihood - ours.bound.kl))
    np.testing.assert_allclose(evaluated["elbo"], expected, 1e-5)


@pytest.mark.parametrize("loop", ["fit", "train", "data set"])
def test_equal_weights_of_a_vae_are_a_rate(loop: str) -> None:
    weighted, faster = vae(0.1), vae(0.2)
    twos = np.full(N, 2.0)
    for model, weights in ((weighted, twos), (faster, None)):
        if loop == "train":
            tfbdl.train(model, PIXELS, sample_weight=weights, batch_size=N, epochs=2, verbose=0)
        elif loop == "fit":
            model.fit(PIXELS, sample_weight=weights, batch_size=N, shuffle=False, verbose=0)
        else:
            parts = (PIXELS,) if weights is None else (PIXELS, PIXELS, weights)
            model.fit(tf.data.Dataset.from_tensors(parts), epochs=2, verbose=0)
    assert_same_weights(weighted, faster)


def test_weights_of_a_vae_that_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^sample_weight is -1 in example 0; give"):
        vae().fit(PIXELS, sample_weight=-np.ones(N), verbose=0)
    with pytest.raises(ValueError, match=r"^sample_weight has shape \(3,\); give one weight"):
        vae().evaluate(PIXELS, sample_weight=np.ones(3), verbose=0)
