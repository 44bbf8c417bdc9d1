"""A likelihood is given by object, name, config or loss of Keras, wherever one is an argument."""

import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfbdl
from tfbdl import inference, likelihoods

X = np.random.default_rng(0).normal(size=(12, 2)).astype("float32")
LABELS = np.arange(12) % 3
Y = X[:, :1]
SPARSE = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

GIVEN = {
    "name": ("categorical", likelihoods.Categorical()),
    "object": (likelihoods.StudentT(3.0), likelihoods.StudentT(3.0)),
    "class": (likelihoods.Poisson, likelihoods.Poisson()),
    "config": (
        keras.saving.serialize_keras_object(likelihoods.Normal(0.3)),
        likelihoods.Normal(0.3),
    ),
    "rates are not log rates": ("poisson", likelihoods.Poisson()),
    "two words": ("student_t", likelihoods.StudentT()),
    "loss by name": (
        "sparse_categorical_crossentropy",
        likelihoods.Categorical(from_logits=False),
    ),
    "loss by class name": ("BinaryCrossentropy", likelihoods.Bernoulli(from_logits=False)),
    "loss": (SPARSE, likelihoods.Categorical()),
    "loss by function": (
        keras.losses.binary_crossentropy,
        likelihoods.Bernoulli(from_logits=False),
    ),
    "config of a loss": (
        keras.saving.serialize_keras_object(SPARSE),
        likelihoods.Categorical(),
    ),
}
REFUSED = {
    "mse": r"^likelihood='mse' is a loss that gives y no probability; give .* Normal\(0.1\)",
    "object": r"^likelihood=MeanSquaredError is a loss that gives",
    "function": r"^likelihood=hinge is a loss that gives",
    "gauss": r"^likelihood='gauss' is unknown; choose an object .* or one of: bernoulli, .*_t$",
    "number": r"^likelihood=3 is unknown",
    "none": r"^likelihood=None is unknown",
    "config": r"^likelihood=.* is the config of no Loss$",
}
NONE: dict[str, Any] = {
    "mse": "mse",
    "object": keras.losses.MeanSquaredError(),
    "function": keras.losses.hinge,
    "gauss": "gauss",
    "number": 3,
    "none": None,
    "config": keras.saving.serialize_keras_object(keras.layers.Dense(1)),
}


def network(units: int) -> keras.Model:
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(units)])


def drawn(units: int) -> keras.Model:
    keras.utils.set_random_seed(0)
    layer = tfbdl.layers.BayesDense(units, num_data=12)
    return keras.Sequential([keras.Input((2,)), layer])


@pytest.mark.parametrize("name", GIVEN)
def test_get(name: str) -> None:
    given, meant = GIVEN[name]
    likelihood = likelihoods.get(given)
    assert type(likelihood) is type(meant)
    assert likelihood.get_config() == meant.get_config()


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises(ValueError, match=REFUSED[name]) as refusal:
        likelihoods.get(NONE[name])
    assert "\n" not in str(refusal.value)


def exported(of: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        tfbdl.export(drawn(3), Path(folder) / "served", 3, likelihood=of)
        served = tf.saved_model.load(str(Path(folder) / "served"))
        return served.signatures["serving_default"](x=tf.constant(X))["mutual_information"]


ASKED = {
    "export": exported,
    "predict": lambda of: tfbdl.predict(drawn(3), X, 3, seed=0, likelihood=of).expected_entropy,
    "elbo": lambda of: tfbdl.elbo(drawn(3), X, LABELS, 3, seed=0, likelihood=of),
    "log_predictive_density": lambda of: tfbdl.log_predictive_density(
        drawn(3), X, LABELS, 3, seed=0, likelihood=of
    ),
    "LogPosterior": lambda of: inference.LogPosterior(
        network(3), 1.0, X, LABELS, likelihood=of
    ).log_likelihood(np.full(9, 0.1, "float32")),
    "MAP": lambda of: inference.MAP(network(3), 1.0, likelihood=of).fit(X, LABELS).theta,
    "Laplace": lambda of: (
        inference.Laplace(network(3), of).fit(X, LABELS).log_marginal_likelihood()
    ),
    "OfMean": lambda of: tfbdl.metrics.OfMean(keras.metrics.MeanSquaredError(), of)(
        np.eye(3)[LABELS], network(3)(X)
    ),
    "Expected": lambda of: likelihoods.Expected(of)(LABELS, np.tile(X**2, [1, 3])),
}


@pytest.mark.parametrize("given", ["name", "loss", "config of a loss"])
@pytest.mark.parametrize("name", ASKED)
def test_every_argument(name: str, given: str) -> None:
    of = GIVEN[given][0]
    expected = np.asarray(ASKED[name](likelihoods.Categorical()))
    np.testing.assert_allclose(np.asarray(ASKED[name](of)), expected, rtol=1e-6)
    with pytest.raises(ValueError, match=r"^likelihood='mse' is a loss"):
        ASKED[name]("mse")


@pytest.mark.parametrize("kind", ["map", "mcmc", "laplace"])
def test_a_posterior_keeps_what_was_given(kind: str) -> None:
    """A name, and a function, which no file holds."""
    of: Any = keras.losses.sparse_categorical_crossentropy
    softmax = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, "softmax")])
    method: Any = {
        "map": lambda: inference.MAP(softmax, 1.0, likelihood=of),
        "mcmc": lambda: inference.MCMC(softmax, 1.0, likelihood=of, num_samples=4, num_warmup=2),
        "laplace": lambda: inference.Laplace(softmax, of),
    }[kind]()
    posterior = method.fit(X, LABELS, **({"verbose": 0} if kind == "mcmc" else {}))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "posterior.keras"
        posterior.save(path)
        loaded: Any = tfbdl.load(path)
    assert loaded.likelihood.get_config() == likelihoods.Categorical(False).get_config()
    mean = [tfbdl.predict(p, X, 4, seed=0, verbose=0).mean for p in (posterior, loaded)]
    np.testing.assert_allclose(*mean, rtol=1e-6)


def test_a_name_leaves_the_noise_of_laplace_open() -> None:
    by_name = inference.Laplace(network(1), "normal", sigma_noise=0.3).fit(X, Y)
    by_object = inference.Laplace(network(1), likelihoods.Normal(0.3)).fit(X, Y)
    assert by_name.sigma_noise == 0.3
    evidence = [float(p.log_marginal_likelihood()) for p in (by_name, by_object)]
    np.testing.assert_allclose(*evidence, rtol=1e-12)


def test_a_vae_takes_objects() -> None:
    x = np.random.default_rng(1).uniform(size=(4, 6)).astype("float32")
    grey = tfbdl.models.VAE(2, (5,), likelihoods.ContinuousBernoulli(), seed=0)
    grey(x)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vae.keras"
        grey.save(path)
        loaded = keras.models.load_model(path)
    assert isinstance(loaded.likelihood, likelihoods.ContinuousBernoulli)
    np.testing.assert_allclose(loaded(x), grey(x), rtol=1e-6)
