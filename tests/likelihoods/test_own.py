"""A likelihood of the user's own: log_prob, mean and variance are enough."""

import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

import tfbdl
from tfbdl import inference, likelihoods
from tfbdl.inference.laplace.output_fisher import information_root

N = 30
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2)).astype("float32")
Y = (X[:, :1] + 0.3 * RNG.normal(size=(N, 1))).astype("float32")


@keras.saving.register_keras_serializable(package="tests.own")
class Noisy(likelihoods.Likelihood):
    """N(outputs, 0.3^2), as a user who knows nothing else would write it."""

    def log_prob(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        t = (tf.cast(y, outputs.dtype) - outputs) / 0.3
        return tf.reduce_sum(-0.5 * t * t - np.log(0.3 * np.sqrt(2.0 * np.pi)), axis=-1)

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        return outputs

    def variance(self, outputs: tf.Tensor) -> tf.Tensor:
        return 0.09 * tf.ones_like(outputs)


class Unreduced(Noisy):
    def log_prob(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return -tf.square(y - outputs)


class Strict(Noisy):
    def log_prob(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return -tf.reduce_sum(tf.square(y - outputs), axis=-1)


OWN, SAME = Noisy(), likelihoods.Normal(0.3)


def network(loss: Any, *, random: bool = False) -> keras.Model:
    keras.utils.set_random_seed(0)
    last = tfbdl.layers.BayesDense(1, num_data=N) if random else keras.layers.Dense(1)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3, "tanh"), last])
    model.compile(keras.optimizers.Adam(0.01), loss)
    return model


def trained(loss: Any) -> Any:
    model = network(loss)
    model.fit(X, Y, epochs=2, batch_size=10, verbose=0, shuffle=False)
    return np.concatenate([w.numpy().ravel() for w in model.weights])


def predicted(posterior: Any) -> Any:
    prediction = tfbdl.predict(posterior, X, 4, seed=0, verbose=0)
    return np.stack([prediction.mean, prediction.stddev, *prediction.interval()])


def laplace(loss: Any, **given: Any) -> Any:
    return inference.Laplace(network(loss), subset_of_weights="all", **given).fit(X, Y)


WAYS = {
    "fit": trained,
    "train": lambda of: list(
        tfbdl.train(network(of, random=True), X, Y, epochs=2, batch_size=10, verbose=0).values()
    ),
    "predict": lambda of: predicted(network(of, random=True)),
    "elbo": lambda of: tfbdl.elbo(network(of, random=True), X, Y, 3, seed=0),
    "log_predictive_density": lambda of: tfbdl.log_predictive_density(
        network(of, random=True), X, Y, 3, seed=0
    ),
    "MAP": lambda of: predicted(inference.MAP(network(of), 1.0).fit(X, Y).ensemble(1)),
    "MCMC": lambda of: predicted(
        inference.MCMC(network(of), 1.0, num_samples=4, num_warmup=4, num_chains=1, seed=0).fit(
            X, Y, verbose=0
        )
    ),
    "SWAG": lambda of: predicted(
        inference.SWAG(network(of), seed=0).fit(X, Y, epochs=3, batch_size=10, verbose=0)
    ),
    "Laplace": lambda of: laplace(of).log_marginal_likelihood(),
    "Laplace, ef": lambda of: laplace(of, curvature="ef").log_marginal_likelihood(),
    "Laplace, hessian": lambda of: laplace(
        of, curvature="hessian", hessian_structure="full", prior_precision=1e4
    ).log_marginal_likelihood(),
    "Laplace, nn": lambda of: predicted(laplace(of, pred_type="nn")),
}


@pytest.mark.parametrize("name", WAYS)
def test_as_with_the_family_it_equals(name: str) -> None:
    actual, expected = WAYS[name](OWN), WAYS[name](SAME)
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=2e-4, atol=2e-5)


def test_laplace_predicts_by_draws() -> None:
    prediction = tfbdl.predict(laplace(OWN), X, 4000, seed=0, verbose=0)
    exact = tfbdl.predict(laplace(SAME), X, 1, verbose=0)
    assert prediction.expected_entropy is None
    error = exact.epistemic_stddev / np.sqrt(4000)
    assert np.abs((prediction.mean - exact.mean) / error).max() < 5
    np.testing.assert_allclose(prediction.stddev, exact.stddev, rtol=0.1)


def test_is_saved_with_the_model() -> None:
    model = network(OWN, random=True)
    model.fit(X, Y, verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.keras")
        loaded = keras.models.load_model(Path(folder) / "model.keras")
    assert isinstance(loaded.loss, Noisy)


def test_what_is_missing_is_named() -> None:
    kept = tfbdl.predict(network(OWN, random=True), X, 4, return_samples=True, verbose=0)
    assert kept.log_prob(Y).shape == (N,)
    family = "^likelihood=Noisy has no"
    with pytest.raises(ValueError, match=f"{family} cdf; define Noisy.cdf, or distribution$"):
        kept.quantile(0.5)
    with pytest.raises(ValueError, match=f"{family} sample; define Noisy.sample, or distribution"):
        laplace(OWN, curvature="mc_fisher")
    with pytest.raises(ValueError, match=f"{family} entropy"):
        OWN.entropy(tf.zeros([2, 1]))
    with pytest.raises(ValueError, match=f"{family} distribution; define Noisy.distribution$"):
        OWN.distribution(tf.zeros([2, 1]))


@pytest.mark.parametrize(
    ("own", "y", "message"),
    [
        (Unreduced(), Y, r"^likelihood=Unreduced: log_prob has shape \(1, 1\) for one example"),
        (Strict(), Y.astype("int64"), "^likelihood=Strict: log_prob fails for y of .* type int64"),
    ],
)
def test_log_prob_is_tried(own: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refusal:
        tfbdl.elbo(network(own, random=True), X, y, 2)
    assert "\n" not in str(refusal.value)


def test_what_defines_too_little() -> None:
    class Half(likelihoods.Likelihood):
        def log_prob(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
            return -tf.reduce_sum(tf.square(y - outputs), axis=-1)

    with pytest.raises(TypeError, match=r"Half; define distribution, or mean and variance$"):
        Half()


class SkewedCounts(Noisy):
    """Counts whose outputs are log means and log dispersions: curvature that differs with y."""

    def log_prob(self, y: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        mean, r = tf.unstack(tf.exp(outputs), axis=-1)
        y = tf.cast(y, outputs.dtype)[:, 0]
        norm = tf.math.lgamma(y + r) - tf.math.lgamma(r) - tf.math.lgamma(y + 1.0)
        return norm + y * tf.math.log(mean / (mean + r)) + r * tf.math.log(r / (mean + r))


def test_observed_information_against_differences() -> None:
    """The differences of SciPy's log probability; where it is indefinite, its positive part."""
    y, outputs = RNG.poisson(3.0, (9, 1)), RNG.normal(0.5, 0.7, (9, 2))
    root = information_root(SkewedCounts(), tf.constant(y), tf.constant(outputs)).numpy()

    def log_p(f: Any) -> Any:
        mean, r = np.exp(f).T
        return scipy.stats.nbinom(r, r / (mean + r)).logpmf(y[:, 0])

    h, step = np.zeros((9, 2, 2)), 1e-3
    for i, j in np.ndindex(2, 2):
        a, b = step * np.eye(2)[i], step * np.eye(2)[j]
        crossed = log_p(outputs + a + b) - log_p(outputs + a - b)
        crossed -= log_p(outputs - a + b) - log_p(outputs - a - b)
        h[:, i, j] = -crossed / (4 * step**2)
    values, vectors = np.linalg.eigh(h)
    positive = np.einsum("nij,nj,nkj->nik", vectors, np.maximum(values, 0), vectors)
    assert (values < 0).any()
    np.testing.assert_allclose(root @ root.transpose(0, 2, 1), positive, rtol=1e-3, atol=1e-4)
