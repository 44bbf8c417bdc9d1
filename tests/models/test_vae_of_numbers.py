"""A VAE of real numbers, positive ones and counts: any likelihood of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

import tfbdl
from tfbdl import likelihoods
from tfbdl.models import VAE

RNG = np.random.default_rng(0)
N, D, SIGMA = 30, 3, 0.5
X = RNG.normal(2.0, 3.0, (N, D)).astype("float32")


def test_a_linear_decoder_is_probabilistic_pca() -> None:
    """Under the exact posterior p(x, z) / q(z | x) is N(x; b, w w^T + sigma^2 I) at every z."""
    w, b = RNG.normal(size=(1, D)), RNG.normal(size=D)
    precision = float((w @ w.T + SIGMA**2).item())
    encoder = keras.layers.Dense(2)
    vae = VAE(1, (), likelihoods.Normal(SIGMA), encoder=encoder, decoder=keras.layers.Dense(D))
    vae.build((None, D))
    vae.decoder.set_weights([w, b])
    to_mean = w.T / precision
    rho = np.log(np.expm1(SIGMA / np.sqrt(precision)))
    encoder.set_weights(
        [np.concatenate([to_mean, np.zeros((D, 1))], axis=1), np.append(-b @ to_mean, rho)]
    )
    exact = scipy.stats.multivariate_normal(b, w.T @ w + SIGMA**2 * np.eye(D)).logpdf(X)
    np.testing.assert_allclose(vae.elbo(X, 20_000).mean(), exact.mean(), 1e-3)
    np.testing.assert_allclose(vae.log_likelihood(X, 3), exact, 1e-4)
    draws = vae.sample(20_000, seed=1)
    error = 5 * np.sqrt(np.diag(w.T @ w) + SIGMA**2) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - b) < error)
    np.testing.assert_allclose(np.cov(draws.T), w.T @ w + SIGMA**2 * np.eye(D), 0.1, 0.03)


LAWS: dict[str, tuple[Any, np.ndarray, Any]] = {
    "predicted": (
        likelihoods.Normal("predicted"),
        X,
        lambda x, a, b: scipy.stats.norm(a, np.logaddexp(0, b) + 1e-6).logpdf(x),
    ),
    "student": (
        likelihoods.StudentT(4.0, 0.7),
        X,
        lambda x, a: scipy.stats.t(4, a, 0.7).logpdf(x),
    ),
    "poisson": (
        likelihoods.Poisson(),
        RNG.poisson(2.0, X.shape).astype("float32"),
        lambda x, a: scipy.stats.poisson(np.exp(a)).logpmf(x),
    ),
    "gamma": (
        likelihoods.Gamma(2.0),
        np.exp(X / 4),
        lambda x, a: scipy.stats.gamma(2.0, scale=np.exp(a) / 2.0).logpdf(x),
    ),
}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("own", [False, True])
def test_bound(name: str, own: bool) -> None:
    """-loss = log p(x | z) - KL at z = mu, also of images whose last axis holds the scales."""
    likelihood, x, log_p = LAWS[name]
    kinds = likelihood.outputs_per_function
    shape = (3, 5, 2)
    x = np.resize(x, (6, *shape)).astype("float32")
    networks = {}
    if own:
        convolution = keras.layers.Conv2DTranspose(2 * kinds, 2)
        networks["decoder"] = keras.Sequential(
            [keras.layers.Dense(8, "relu"), keras.layers.Reshape((2, 4, 1)), convolution]
        )
    keras.utils.set_random_seed(1)
    vae = VAE(2, (4,), likelihood, seed=1, **networks)
    vae.compile("adam")
    loss = vae.evaluate(x, verbose=0, return_dict=True)["loss"]
    q = vae.encode(x)
    if own:
        outputs = np.asarray(vae.decoder(q.mu), np.float64)
    else:
        h = np.maximum(np.asarray(vae.decoder_hidden[0](q.mu)), 0)
        outputs = np.asarray(vae.outputs_layer(h), np.float64).reshape(6, 3, 5, -1)
    parts = np.split(outputs, kinds, axis=-1)
    mu, sigma = (np.asarray(t, np.float64) for t in q)
    kl = 0.5 * np.sum(mu**2 + sigma**2 - 2 * np.log(sigma) - 1, axis=1)
    expected = log_p(x.astype(np.float64), *parts).sum(axis=(1, 2, 3)) - kl
    assert -loss == pytest.approx(np.mean(expected), rel=1e-5)
    assert vae(x).shape == x.shape
    assert vae.sample(4).shape == (4, *shape)


def test_a_decoder_that_ends_in_probabilities() -> None:
    x = (RNG.random((8, D)) < 0.5).astype("float32")
    likelihood = likelihoods.Bernoulli(from_logits=False)
    of_p = VAE(2, (4,), likelihood, decoder=keras.layers.Dense(D, "sigmoid"), seed=1)
    of_logits = VAE(2, (4,), decoder=keras.layers.Dense(D), seed=1)
    for vae in (of_p, of_logits):
        vae.build((None, D))
        for number, v in enumerate(vae.trainable_variables):
            v.assign(np.random.default_rng(number).normal(size=v.shape))
    np.testing.assert_allclose(of_p.elbo(x), of_logits.elbo(x), 1e-4)


def test_learns_and_is_saved(tmp_path: Path) -> None:
    """Two clusters on a line: the data's own density is reached to 0.4 nats."""
    side = np.sign(RNG.normal(size=(500, 1)))
    x = (side * [2.0, 1.0, 0.0] + RNG.normal(0, 0.2, (500, 3))).astype("float32")
    keras.utils.set_random_seed(0)
    vae = VAE(1, (16,), likelihoods.Normal("predicted"), activation="tanh", seed=1)
    vae.compile(keras.optimizers.Adam(0.01))
    vae.fit(x, epochs=150, batch_size=50, verbose=0)
    of_side = [
        scipy.stats.norm(np.array([2.0, 1.0, 0.0]) * s, 0.2).logpdf(x).sum(axis=1) for s in (-1, 1)
    ]
    exact = np.logaddexp(*of_side) - np.log(2)
    assert np.mean(vae.log_likelihood(x, 300)) > np.mean(exact) - 0.4
    vae.save(tmp_path / "vae.keras")
    again = tfbdl.load(tmp_path / "vae.keras")
    np.testing.assert_array_equal(again.elbo(x, 2, seed=3), vae.elbo(x, 2, seed=3))


@pytest.mark.parametrize(
    ("likelihood", "x", "message"),
    [
        (likelihoods.Poisson(), X, r"^x has the value -?[\d.]+; give counts 0, 1, \.\.\.$"),
        (likelihoods.Gamma(1.0), -np.abs(X), "^x has the value -.*give positive numbers"),
        (likelihoods.Normal(1.0), np.full((2, 3), 1e300), "^x overflows float32"),
    ],
)
def test_data_that_the_law_has_not(likelihood: Any, x: np.ndarray, message: str) -> None:
    vae = VAE(1, (4,), likelihood)
    vae.compile("adam")
    for call in (vae.elbo, vae.fit, vae.evaluate):
        with pytest.raises(ValueError, match=message):
            call(x)


def test_first_batch_of_a_data_set_is_checked() -> None:
    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> Any:
            return (255 * np.abs(X),)

    vae = VAE(1, (4,))
    vae.compile("adam")
    for data in (tf.data.Dataset.from_tensor_slices(255 * np.abs(X)).batch(5), Batches()):
        with pytest.raises(ValueError, match=r"^x has values from .* needs pixels in \[0, 1\]"):
            vae.fit(data)


def test_classes_are_refused() -> None:
    for likelihood in ("categorical", likelihoods.Joint({"a": likelihoods.Normal(1.0)})):
        with pytest.raises(ValueError, match=r"^likelihood=.* is not for elements of x; choose"):
            VAE(2, likelihood=likelihood)
