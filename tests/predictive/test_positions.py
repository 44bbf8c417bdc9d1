"""Predictions of outputs with positions: what is said of each, held against NumPy."""

from typing import Any

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats

import tfbdl
from tfbdl import likelihoods
from tfbdl.inference import SWAG, DeepEnsemble, Laplace
from tfbdl.layers import MCDropout

RNG = np.random.default_rng(0)
SIDE, C, T, WORDS = 4, 3, 6, 9
IMAGES = RNG.normal(size=(5, SIDE, SIDE, 1)).astype("float32")
LABELS = RNG.integers(0, C, (5, SIDE, SIDE))
IGNORED = RNG.random(LABELS.shape) < 0.4
TOKENS = RNG.integers(1, WORDS, (5, T))
TOKENS[:3, 4:] = 0
TAGS = RNG.integers(0, C, (5, T))


def unet(units: int = C, *, random: bool = True) -> keras.Model:
    keras.utils.set_random_seed(1)
    layers = keras.layers
    inputs = keras.Input((SIDE, SIDE, 1))
    whole = layers.Conv2D(4, 3, padding="same", activation="tanh")(inputs)
    half = layers.Conv2D(6, 3, strides=2, padding="same", activation="tanh")(whole)
    half = MCDropout(0.5)(half) if random else half
    both = layers.Concatenate()([whole, layers.UpSampling2D()(half)])
    return keras.Model(inputs, layers.Conv2D(units, 1)(both))


def tagger(*, random: bool = True) -> keras.Model:
    keras.utils.set_random_seed(2)
    layers = keras.layers
    inputs = keras.Input((T,), dtype="int32")
    h = layers.Embedding(WORDS, 4, mask_zero=True)(inputs)
    h = layers.SimpleRNN(5, return_sequences=True)(h)
    h = MCDropout(0.5)(h) if random else h
    return keras.Model(inputs, layers.Dense(C)(h))


def log_probs(prediction: Any, y: Any) -> Any:
    """Log p of the labels at each position under each function, (S, N, ...)."""
    log_p = scipy.special.log_softmax(prediction.outputs.astype(np.float64), axis=-1)
    return np.take_along_axis(log_p, y[None, ..., None], axis=-1)[..., 0]


@pytest.mark.parametrize("return_samples", [False, True])
@pytest.mark.parametrize("make", [unet, tagger])
def test_entropies_are_of_positions(make: Any, return_samples: bool) -> None:
    x = IMAGES if make is unet else TOKENS
    classes = likelihoods.Categorical()
    got = tfbdl.predict(
        make(), x, 7, seed=3, likelihood=classes, return_samples=return_samples, verbose=0
    )
    kept = tfbdl.predict(make(), x, 7, seed=3, likelihood=classes, return_samples=True, verbose=0)
    p = scipy.special.softmax(kept.outputs.astype(np.float64), axis=-1)
    total = scipy.stats.entropy(p.mean(axis=0), axis=-1)
    expected = scipy.stats.entropy(p, axis=-1).mean(axis=0)
    np.testing.assert_allclose(got.entropy, total, 1e-5)
    np.testing.assert_allclose(got.expected_entropy, expected, 1e-5)
    np.testing.assert_allclose(got.mutual_information, total - expected, atol=1e-5)
    np.testing.assert_allclose(got[1:3].entropy, total[1:3], 1e-5)


def test_two_classes_at_each_position() -> None:
    """One column of logits."""
    got = tfbdl.predict(unet(1), IMAGES, 7, likelihood="bernoulli", return_samples=True, verbose=0)
    p = scipy.special.expit(got.outputs.astype(np.float64))
    total, expected = (scipy.stats.bernoulli(q[..., 0]).entropy() for q in (p.mean(axis=0), p))
    np.testing.assert_allclose(got.entropy, total, 1e-5)
    np.testing.assert_allclose(got.expected_entropy, expected.mean(axis=0), 1e-5)


@pytest.mark.parametrize("of_keras", [False, True])
def test_ignored_labels(of_keras: bool) -> None:
    """The bound, and the density, are those of the other positions."""
    y = np.where(IGNORED, 255, LABELS)
    loss: Any = likelihoods.Categorical(ignore_class=255)
    if of_keras:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=255)
    model = unet()
    model.compile("adam", loss)
    kept = tfbdl.predict(model, IMAGES, 7, seed=3, return_samples=True, verbose=0)
    logs = (log_probs(kept, LABELS) * ~IGNORED).sum(axis=(2, 3))
    density = scipy.special.logsumexp(logs, axis=0) - np.log(7)
    np.testing.assert_allclose(kept.log_prob(y), density, 1e-5)
    bound = tfbdl.elbo(model, IMAGES, y, 7, seed=3)
    np.testing.assert_allclose(bound.log_likelihood, logs.mean(), 1e-5)
    got = tfbdl.predictive.log_predictive_density(model, IMAGES, y, 7, seed=3)
    np.testing.assert_allclose(got, density, 1e-5)


def test_masked_positions() -> None:
    model = tagger()
    model.compile("adam", likelihoods.Categorical())
    kept = tfbdl.predict(model, TOKENS, 7, seed=3, return_samples=True, verbose=0)
    logs = (log_probs(kept, TAGS) * (TOKENS != 0)).sum(axis=2)
    np.testing.assert_array_equal(kept.mask, TOKENS != 0)
    density = scipy.special.logsumexp(logs, axis=0) - np.log(7)
    np.testing.assert_allclose(kept.log_prob(TAGS), density, 1e-5)
    bound = tfbdl.elbo(model, TOKENS, TAGS, 7, seed=3)
    np.testing.assert_allclose(bound.log_likelihood, logs.mean(), 1e-5)
    got = tfbdl.predictive.log_predictive_density(model, TOKENS, TAGS, 7, seed=3)
    np.testing.assert_allclose(got, density, 1e-5)
    assert tfbdl.predict(unet(), IMAGES, 2, verbose=0).mask is None


def swag() -> Any:
    model = tagger(random=False)
    model.compile("sgd", likelihoods.Categorical())
    return SWAG(model, rank=2).fit(TOKENS, TAGS, epochs=4, batch_size=5, verbose=0)


def members(savedir: Any = None, **arguments: Any) -> Any:
    def build() -> keras.Model:
        model = tagger(random=False)
        model.compile("sgd", likelihoods.Categorical())
        return model

    ensemble = DeepEnsemble(build, 2, **arguments)
    return ensemble.fit(TOKENS, TAGS, epochs=1, batch_size=5, savedir=savedir, verbose=0)


@pytest.mark.parametrize("method", ["swag", "ensemble", "in_turn"])
def test_posteriors_of_masked_positions(method: str, tmp_path: Any) -> None:
    fits = {
        "swag": swag,
        "ensemble": members,
        "in_turn": lambda: members(in_memory=False, savedir=tmp_path),
    }
    posterior = fits[method]()
    kept = tfbdl.predict(posterior, TOKENS, 2, seed=3, return_samples=True, verbose=0)
    np.testing.assert_array_equal(kept.mask, TOKENS != 0)
    logs = (log_probs(kept, TAGS) * (TOKENS != 0)).sum(axis=2)
    density = scipy.special.logsumexp(logs, axis=0) - np.log(len(logs))
    np.testing.assert_allclose(kept.log_prob(TAGS), density, 1e-5)
    got = tfbdl.predictive.log_predictive_density(posterior, TOKENS, TAGS, 2, seed=3)
    np.testing.assert_allclose(got, density, 1e-5)


@pytest.mark.parametrize("units", [1, 2])
def test_entropy_of_normal_positions(units: int) -> None:
    """Entropies of all elements at a position together, from Laplace's covariance of them."""
    model = unet(units, random=False)
    y = RNG.normal(size=(5, SIDE, SIDE, units)).astype("float32")
    laplace = Laplace(model, likelihood=likelihoods.Normal(0.5), subset_of_weights="last_layer")
    laplace.fit(IMAGES, y)
    prediction = tfbdl.predict(laplace, IMAGES, verbose=0)
    _, covariance = laplace.function_moments(IMAGES)
    blocks = covariance.reshape(5, SIDE * SIDE, units, SIDE * SIDE, units)
    blocks = np.einsum("ntctd->ntcd", blocks) + 0.25 * np.eye(units)
    expected = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * blocks)[1]
    np.testing.assert_allclose(prediction.entropy.reshape(5, -1), expected, 1e-5)
    of_noise = np.full((5, SIDE, SIDE), units * scipy.stats.norm(0, 0.5).entropy())
    np.testing.assert_allclose(prediction.expected_entropy, of_noise, 1e-6)
