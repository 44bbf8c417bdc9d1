"""Logits with noise, against numerical integration."""

from typing import Any

import keras
import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats
import tensorflow as tf

import tfbdl
from tfbdl import likelihoods
from tfbdl.layers import HeteroscedasticLogits, MCDropout

RNG = np.random.default_rng(0)
B, S = 4, 100_000
ERROR = 5 * 0.5 / np.sqrt(S)


def softplus(x: Any) -> Any:
    return np.log1p(np.exp(x))


def columns(mu: Any, raw: Any, V: Any) -> Any:
    return np.concatenate([mu, raw, V.reshape(len(mu), -1)], axis=1).astype("float32")


@pytest.mark.parametrize(("rank", "temperature"), [(0, 1.0), (1, 0.3), (3, 2.0)])
def test_two_classes_by_an_integral(rank: int, temperature: float) -> None:
    """u_1 - u_0 is normal, of the variance s_0^2 + s_1^2 + |V_1 - V_0|^2."""
    mu, raw = RNG.normal(size=(2, B, 2))
    V = RNG.normal(size=(B, 2, rank))
    layer = HeteroscedasticLogits(rank, temperature=temperature, num_samples=S, seed=1)
    p = np.exp(layer(columns(mu, raw, V)))
    for b in range(B):
        variance = np.sum(softplus(raw[b]) ** 2) + np.sum((V[b, 1] - V[b, 0]) ** 2)
        law = scipy.stats.norm(mu[b, 1] - mu[b, 0], np.sqrt(variance))
        expected, _ = scipy.integrate.quad(
            lambda d, law=law: scipy.special.expit(d / temperature) * law.pdf(d), -40, 40, limit=400
        )
        np.testing.assert_allclose(p[b, 1], expected, atol=ERROR)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=5e-4)


def test_correlated_classes_by_an_integral() -> None:
    """One factor for three classes, and no other noise."""
    mu, V = RNG.normal(size=(B, 3)), 2.0 * RNG.normal(size=(B, 3, 1))
    layer = HeteroscedasticLogits(1, num_samples=S, seed=1)
    p = np.exp(layer(columns(mu, np.full((B, 3), -50.0), V)))
    grid = np.linspace(-8, 8, 4001)
    for b in range(B):
        of_each = scipy.special.softmax(mu[b] + grid[:, None] * V[b, :, 0], axis=1)
        expected = scipy.integrate.simpson(of_each.T * scipy.stats.norm.pdf(grid), x=grid)
        np.testing.assert_allclose(p[b], expected, atol=ERROR)


def test_without_noise_it_is_the_softmax() -> None:
    """Saturated logits too, whose log probabilities stay exact."""
    mu = np.array([[1.0, 2.0, 0.0], [80.0, 0.0, -80.0]])
    x = columns(mu, np.full((2, 3), -100.0), np.zeros((2, 3, 2)))
    actual = HeteroscedasticLogits(2, temperature=0.5)(x)
    np.testing.assert_allclose(actual, scipy.special.log_softmax(mu / 0.5, axis=1), rtol=1e-5)


def test_noise_in_training_and_not_elsewhere() -> None:
    layer = HeteroscedasticLogits(2, num_samples=7, seed=3)
    x = np.tile(RNG.normal(size=(1, 12)), (5, 1)).astype("float32")
    np.testing.assert_array_equal(layer(x), layer(x))
    np.testing.assert_allclose(layer(x)[0], layer(x)[4], rtol=1e-6)
    first, second = layer(x, training=True), layer(x, training=True)
    assert np.abs(first - second).min() > 1e-4
    again = HeteroscedasticLogits(2, num_samples=7, seed=3)
    np.testing.assert_array_equal(again(x), layer(x))
    np.testing.assert_array_equal(again(x, training=True), first)
    means = [np.exp(layer(x[:1], training=True))[0] for _ in range(2000)]
    many = HeteroscedasticLogits(2, num_samples=S)
    np.testing.assert_allclose(np.mean(means, axis=0), np.exp(many(x[:1]))[0], atol=0.02)


def test_positions() -> None:
    x = RNG.normal(size=(2, 3, 12)).astype("float32")
    layer = HeteroscedasticLogits(1, seed=1)
    expected = layer(x.reshape(6, 12))
    np.testing.assert_allclose(layer(x), np.reshape(expected, (2, 3, 4)), rtol=1e-5)


def test_a_model_learns_where_labels_are_noisy() -> None:
    """At x = 1 labels are drawn from {0, 1}, at x = 0 they are sure; draws add dropout's."""
    keras.utils.set_random_seed(0)
    x = RNG.integers(2, size=(800, 1)).astype("float32")
    y = np.where(x[:, 0] == 1, RNG.integers(2, size=800), 2)
    model = keras.Sequential(
        [keras.Input((1,)), MCDropout(0.0), keras.layers.Dense(9), HeteroscedasticLogits(1, seed=0)]
    )
    model.compile(keras.optimizers.Adam(0.05), likelihoods.Categorical())
    model.fit(x, y, epochs=15, verbose=0)
    prediction = tfbdl.predict(model, np.array([[0.0], [1.0]], "float32"), 3)
    np.testing.assert_allclose(prediction.mean, [[0, 0, 1], [0.5, 0.5, 0]], atol=0.07)
    assert prediction.epistemic_variance.max() < 1e-9
    assert prediction.expected_entropy[1] > 0.6


def test_refusals() -> None:
    for given, message in (
        ({"rank": -1}, r"^rank=-1 must be at least 0$"),
        ({"rank": 1, "temperature": 0}, r"^temperature=0 must be a positive number$"),
        ({"rank": 1, "num_samples": 0}, r"^num_samples=0 must be a positive integer$"),
    ):
        with pytest.raises(ValueError, match=message):
            HeteroscedasticLogits(**given)
    for last in (3, 4):
        with pytest.raises(
            ValueError, match=r"^rank=1 needs inputs of 3 C columns, for C > 1 classes: log"
        ):
            HeteroscedasticLogits(1)(tf.zeros([2, last]))
