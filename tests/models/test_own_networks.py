"""A VAE with an encoder and a decoder of the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import scipy.stats

import tfbdl

X = (np.random.default_rng(0).random((12, 4, 4, 1)) < 0.5).astype("float32")
LATENT = 2


def encoder() -> keras.Sequential:
    return keras.Sequential(
        [
            keras.layers.Conv2D(3, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(2 * LATENT),
        ]
    )


def decoder() -> keras.Sequential:
    return keras.Sequential(
        [
            keras.layers.Dense(12, "relu"),
            keras.layers.Reshape((2, 2, 3)),
            keras.layers.Conv2DTranspose(1, 3),
        ]
    )


def vae(**arguments: Any) -> tfbdl.models.VAE:
    keras.utils.set_random_seed(0)
    model = tfbdl.models.VAE(LATENT, encoder=encoder(), decoder=decoder(), seed=1, **arguments)
    model.compile(keras.optimizers.Adam(0.01))
    return model


def test_bound_is_that_of_the_networks() -> None:
    """-loss = log p(x | z) - KL at z = mu, of what encoder and decoder give."""
    model = vae()
    loss = model.evaluate(X, verbose=0, return_dict=True)["loss"]
    outputs = np.asarray(model.encoder(X), np.float64)
    mu, sigma = outputs[:, :LATENT], np.logaddexp(0.0, outputs[:, LATENT:])
    logits = np.asarray(model.decoder(mu.astype("float32")), np.float64).reshape(len(X), -1)
    p = 1.0 / (1.0 + np.exp(-logits))
    log_prob = scipy.stats.bernoulli(p).logpmf(X.reshape(len(X), -1)).sum(axis=1)
    kl = 0.5 * np.sum(mu**2 + sigma**2 - 2.0 * np.log(sigma) - 1.0, axis=1)
    assert loss == pytest.approx(-np.mean(log_prob - kl), rel=1e-5)


def bayesian(num_data: int) -> tfbdl.models.VAE:
    keras.utils.set_random_seed(0)
    stack = [tfbdl.layers.BayesDense(6, "tanh", num_data=num_data), keras.layers.Dense(16)]
    model = tfbdl.models.VAE(LATENT, encoder=encoder(), decoder=keras.Sequential(stack), seed=1)
    model.compile(keras.optimizers.SGD(0.0))
    return model


def test_random_layers_are_in_the_bound() -> None:
    """As kl and elbo of `fit`, `evaluate` and `train` have it, and logs of both loops."""
    model = bayesian(12)
    logs = [
        tfbdl.train(model, X, epochs=1, batch_size=12, verbose=0),
        model.fit(X, epochs=1, batch_size=12, verbose=0).history,
        {name: [value] for name, value in model.evaluate(X, verbose=0, return_dict=True).items()},
    ]
    outputs = np.asarray(model.encoder(X), np.float64)
    mu, sigma = outputs[:, :LATENT], np.logaddexp(0.0, outputs[:, LATENT:])
    of_z = 0.5 * np.sum(mu**2 + sigma**2 - 2.0 * np.log(sigma) - 1.0, axis=1).mean()
    of_weights = 0.0
    for q in model.decoder.layers[0].random_weights:
        m, s = np.asarray(q.mean, np.float64), np.asarray(q.stddev, np.float64)
        of_weights += 0.5 * np.sum(m**2 + s**2 - 2.0 * np.log(s) - 1.0)
    for log in logs:
        assert log["kl"][0] == pytest.approx(of_z + of_weights / 12, rel=1e-5)
        assert log["elbo"][0] == pytest.approx(-log["loss"][0], rel=1e-5)
        assert log["elbo"][0] == pytest.approx(log["log_likelihood"][0] - log["kl"][0], rel=1e-5)


def test_trains_predicts_and_estimates() -> None:
    model = vae()
    before = model.elbo(X, 50).mean()
    history = tfbdl.train(model, X, epochs=30, batch_size=12, verbose=0)
    after = model.elbo(X, 50)
    assert history["elbo"][-1] > history["elbo"][0]
    assert after.mean() > before + 0.5
    assert np.all(model.log_likelihood(X, 200) > after - 0.5)
    assert model.sample(3).shape == (3, 4, 4, 1)
    assert tfbdl.predict(model, X, 5, verbose=0).mean.shape == X.shape


def test_is_saved_with_its_networks(tmp_path: Path) -> None:
    model = vae()
    model.fit(X, epochs=1, verbose=0)
    model.save(tmp_path / "vae.keras")
    loaded = keras.models.load_model(tmp_path / "vae.keras")
    np.testing.assert_array_equal(loaded.predict(X, verbose=0), model.predict(X, verbose=0))
    np.testing.assert_array_equal(loaded.elbo(X, 5), model.elbo(X, 5))


def test_one_network_of_its_own_beside_dense_layers() -> None:
    model = tfbdl.models.VAE(LATENT, (6,), decoder=decoder(), seed=1)
    model.compile("adam")
    model.fit(X, epochs=1, verbose=0)
    shapes = {tuple(v.shape) for v in model.trainable_variables}
    assert (16, 6) in shapes
    assert (LATENT, 12) in shapes


def test_layers_know_that_they_train() -> None:
    """A dropout of rate 1/2 in the decoder acts in training, and not outside of it."""
    network = keras.Sequential([keras.layers.Dense(16), keras.layers.Dropout(0.5)])
    model = tfbdl.models.VAE(LATENT, (6,), decoder=network, seed=1)
    model.build((None, 4, 4, 1))
    model.decoder.layers[0].bias.assign(np.full(16, 50.0))
    trained, not_trained = (np.asarray(model(X, training=flag)) for flag in (True, False))
    assert np.isclose(trained, 0.5).mean() == pytest.approx(0.5, abs=0.15)
    np.testing.assert_allclose(not_trained, 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"encoder": "dense"}, "^encoder='dense' must be a Keras layer or model$"),
        (
            {"encoder": keras.layers.Dense(5, name="five")},
            r"^encoder=five gives shape \(4, 4, 5\) .* give 4 numbers$",
        ),
        (
            {"decoder": keras.layers.Dense(15, name="short")},
            r"^decoder=short gives shape \(15,\) .* give 16 numbers$",
        ),
        (
            {"encoder": keras.layers.Conv1D(1, 1, name="line")},
            r"^encoder=line does not take shape \(4, 4, 1\): ",
        ),
    ],
)
def test_refusals(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tfbdl.models.VAE(LATENT, (6,), **arguments).build((None, 4, 4, 1))


@pytest.mark.parametrize("shape", [(2, LATENT), (1, 1, 2 * LATENT)])
def test_encoder_s_outputs_may_have_any_shape(shape: tuple[int, ...]) -> None:
    """Mu comes first, then rho, along all axes: bound and training are those of a flat encoder."""

    def trained(*reshaped: keras.layers.Layer) -> np.ndarray:
        keras.utils.set_random_seed(0)
        network = keras.Sequential([encoder(), *reshaped])
        model = tfbdl.models.VAE(LATENT, (5,), encoder=network, seed=1)
        model.compile(keras.optimizers.SGD(0.01))
        model.fit(X, epochs=2, batch_size=6, shuffle=False, verbose=0)
        return model.elbo(X, 3)

    np.testing.assert_allclose(trained(keras.layers.Reshape(shape)), trained(), rtol=1e-5)
