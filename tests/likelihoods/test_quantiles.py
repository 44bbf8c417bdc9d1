"""Quantiles that do not cross: against scikit-learn's loss, and integration of the law."""

import itertools
from typing import Any

import keras
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import sklearn.metrics
import tensorflow as tf

import tfbdl
from tfbdl.conformal import CQR
from tfbdl.likelihoods import Quantiles, get

RNG = np.random.default_rng(0)
LEVELS = (0.1, 0.4, 0.5, 0.8)
B, T, D, K = 5, 3, 2, len(LEVELS)
OUTPUTS = RNG.normal(size=(B, T, K * D))
Y = 2.0 * RNG.normal(size=(B, T, D)) + 1.0
LAW = Quantiles(LEVELS)


def quantiles_by_loops(outputs: Any) -> Any:
    """One element at a time."""
    parts = outputs.reshape(*outputs.shape[:-1], K, D).copy()
    for k in range(1, K):
        parts[..., k, :] = parts[..., k - 1, :] + np.log1p(np.exp(parts[..., k, :])) + 1e-6
    return parts


def law_by_hand(q: Any) -> Any:
    """Density of one element: shares over gaps, and tails with the density beside them."""
    shares = np.diff(LEVELS) / np.diff(q)

    def density(y: float) -> float:
        if y < q[0]:
            return shares[0] * np.exp((y - q[0]) * shares[0] / LEVELS[0])
        if y >= q[-1]:
            return shares[-1] * np.exp(-(y - q[-1]) * shares[-1] / (1 - LEVELS[-1]))
        return shares[np.searchsorted(q, y, side="right") - 1]

    return density


def integral(function: Any, q: Any, end: float = np.inf) -> float:
    edges = [-np.inf, *[v for v in q if v < end], end]
    return sum(
        scipy.integrate.quad(function, a, b, epsabs=1e-12)[0] for a, b in itertools.pairwise(edges)
    )


def test_quantiles_do_not_cross() -> None:
    np.testing.assert_allclose(LAW.quantiles(tf.constant(OUTPUTS)), quantiles_by_loops(OUTPUTS))
    wild = tf.constant(100 * RNG.normal(size=(1000, K * D)))
    assert (np.diff(LAW.quantiles(wild), axis=-2) > 0).all()
    assert (np.diff(LAW.quantiles(tf.cast(wild, tf.float32)), axis=-2) >= 0).all()


def test_the_loss_is_the_pinball_loss_of_scikit_learn() -> None:
    q = quantiles_by_loops(OUTPUTS)
    scale = 0.7
    for b in range(B):
        expected = 0.0
        for k, level in enumerate(LEVELS):
            loss = sklearn.metrics.mean_pinball_loss(Y[b].ravel(), q[b, :, k].ravel(), alpha=level)
            expected += T * D * (np.log(level * (1 - level) / scale) - loss / scale) / K
        actual = Quantiles(LEVELS, scale).log_prob(Y[b : b + 1], tf.constant(OUTPUTS[b : b + 1]))
        np.testing.assert_allclose(actual, [expected], rtol=1e-10)


@pytest.mark.parametrize("b", range(B))
def test_moments_entropy_and_cdf_by_integration(b: int) -> None:
    outputs = tf.constant(OUTPUTS[b : b + 1, 0])
    mean, variance, cdf = (
        LAW.mean(outputs),
        LAW.variance(outputs),
        LAW.cdf(Y[b : b + 1, 0], outputs),
    )
    entropy = 0.0
    for d in range(D):
        q = quantiles_by_loops(OUTPUTS[b, 0])[:, d]
        f = law_by_hand(q)
        assert abs(integral(f, q) - 1.0) < 1e-9
        first = integral(lambda y, f=f: y * f(y), q)
        np.testing.assert_allclose(mean[0, d], first, rtol=1e-7, atol=1e-9)
        second = integral(lambda y, f=f, m=first: (y - m) ** 2 * f(y), q)
        np.testing.assert_allclose(variance[0, d], second, rtol=1e-7)
        np.testing.assert_allclose(cdf[0, d], integral(f, q, Y[b, 0, d]), atol=1e-9)
        entropy -= integral(lambda y, f=f: f(y) * np.log(max(f(y), 1e-300)), q)
    np.testing.assert_allclose(LAW.entropy(outputs), [entropy], rtol=1e-7)
    knots = LAW.quantiles(outputs)
    at_knots = [LAW.cdf(knots[:, k], outputs)[0, 0] for k in range(K)]
    np.testing.assert_allclose(at_knots, LEVELS, atol=1e-12)


def test_samples_follow_the_law() -> None:
    many = tf.repeat(tf.constant(OUTPUTS[:1, 0], tf.float32), 20_000, axis=0)
    y = LAW.sample(tf.constant(3, tf.int64), many).numpy()
    for d in range(D):
        u = LAW.cdf(y, many).numpy()[:, d]
        assert scipy.stats.kstest(u, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("law", ["exponential", "bimodal"])
def test_training_finds_the_quantiles_of_any_law(law: str) -> None:
    """Gradients of the loss alone, one set of quantiles for all."""
    y = RNG.exponential(size=20_000)
    if law == "bimodal":
        y = y * RNG.choice([-1.0, 3.0], size=y.size)
    raw = tf.Variable(tf.zeros([1, K], tf.float64))
    optimizer = keras.optimizers.Adam(0.03)
    targets = tf.constant(y[:, None])

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = LAW(targets, tf.repeat(raw, y.size, axis=0))
        optimizer.apply([tape.gradient(loss, raw)], [raw])

    optimizer.build([raw])
    for _ in range(600):
        step()
    below = [np.mean(y <= q) for q in LAW.quantiles(raw).numpy()[0, :, 0]]
    np.testing.assert_allclose(below, LEVELS, atol=0.01)


def test_predictions_have_these_quantiles() -> None:
    """One function has them exactly; several by the mean of their distribution functions."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.Input((2,)), tfbdl.layers.MCDropout(0.5), keras.layers.Dense(K)]
    )
    model.compile("adam", Quantiles(LEVELS))
    x = RNG.normal(size=(30, 2)).astype("float32")
    one = tfbdl.predict(model, x, 0, return_samples=True)
    expected = LAW.quantiles(model(x))[..., 0]
    for k, level in enumerate(LEVELS):
        np.testing.assert_allclose(one.quantile(level)[:, 0], expected[:, k], atol=1e-5)
    several = tfbdl.predict(model, x, 20, seed=0, return_samples=True)
    for q in (0.02, 0.3, 0.97):
        end = several.quantile(q)
        below = np.mean([LAW.cdf(end, f) for f in several.outputs], axis=0)
        np.testing.assert_allclose(below, q, atol=1e-4)
    y = RNG.normal(size=(30, 1))
    low, high = CQR().fit(several, y).predict(several, 0.8)
    assert np.mean((low <= y) & (y <= high)) >= 0.8


def test_config_and_name() -> None:
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(Quantiles(LEVELS, 0.3))
    )
    assert again.levels == LEVELS
    assert again.scale == 0.3
    assert isinstance(get("quantiles"), Quantiles)


@pytest.mark.parametrize(
    "levels",
    [(0.5,), (), (0.5, 0.2), (0.0, 0.5), (0.5, 1.0), (0.5, 0.5), "a", None, 0.5, [np.nan, 0.5]],
)
def test_levels_that_are_none(levels: Any) -> None:
    with pytest.raises(ValueError, match=r"^levels=.* must be at least two probabilities in"):
        Quantiles(levels)


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"^scale=-1 must be a positive number$"):
        Quantiles(scale=-1)
    message = r"^outputs has shape \(5, 6\); Quantiles of 4 levels needs a last axis of a multiple"
    with pytest.raises(ValueError, match=message):
        LAW.check(tf.zeros([5, 6]))
    with pytest.raises(ValueError, match=r"^y has shape \(5, 3\); these outputs describe \(5, 1"):
        LAW.check_targets(np.zeros([5, 3]), tf.zeros([5, 4]))
    with pytest.raises(ValueError, match=r"^y is not finite in example 0; remove it"):
        LAW.check_targets(np.full([5, 1], np.inf), tf.zeros([5, 4]))
