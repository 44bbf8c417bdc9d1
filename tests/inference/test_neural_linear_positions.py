"""Networks with outputs at positions: each is a row of one regression."""

import dataclasses
from typing import Any
from unittest import mock

import keras
import numpy as np
import pytest

import tfbdl
from tfbdl.inference import Laplace, NeuralLinear
from tfbdl.inference.neural_linear import moments
from tfbdl.likelihoods import Normal

RNG = np.random.default_rng(0)
N, T, F = 5, 6, 2
X, NEW = (RNG.normal(size=(n, 2, 3, 3)) for n in (N, 4))
Y = RNG.normal(size=(N, 2, 3, F)) + 0.4
NOISES: Any = (0.6, None)


def segmenting() -> keras.Model:
    keras.utils.set_random_seed(3)
    hidden = keras.layers.Conv2D(4, 2, padding="same", activation="tanh", dtype="float64")
    last = keras.layers.Conv2D(F, 1, bias_initializer="normal", dtype="float64", name="last")
    return keras.Sequential([keras.Input((2, 3, 3), dtype="float64"), hidden, last])


def linear() -> keras.Model:
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(F)])


def features(model: keras.Model, x: Any) -> Any:
    """The features of all pixels, one row each."""
    return np.asarray(model.layers[0](x)).reshape(-1, 4)


def fitted(sigma_noise: Any, prior: Any = 1.7) -> tuple[keras.Model, Any, Any]:
    """A network, its posterior, and the same regression on rows of features."""
    model, options = segmenting(), {"sigma_noise": sigma_noise, "dtype": "float64"}
    own = NeuralLinear(model, prior_precision=prior, **options).fit(X, Y, batch_size=2)
    of_rows = NeuralLinear(linear(), prior_precision=prior, **options)
    return model, own, of_rows.fit(features(model, X), Y.reshape(-1, F))


@pytest.mark.parametrize("sigma_noise", NOISES)
def test_each_position_is_a_row(sigma_noise: Any) -> None:
    model, own, of_rows = fitted(sigma_noise)
    np.testing.assert_allclose(
        own.log_marginal_likelihood(), of_rows.log_marginal_likelihood(), 1e-9
    )
    options = {"return_samples": True, "seed": 2, "verbose": 0, "batch_size": 3}
    got = tfbdl.predict(own, NEW, 7, **options)
    expected = tfbdl.predict(of_rows, features(model, NEW), 7, **options)
    for name in (
        "mean",
        "aleatoric_variance",
        "epistemic_variance",
        "entropy",
        "expected_entropy",
        "mutual_information",
    ):
        value = getattr(expected, name)
        np.testing.assert_allclose(
            getattr(got, name), value.reshape(4, 2, 3, *value.shape[1:]), 1e-6
        )
    drawn = expected.outputs
    np.testing.assert_allclose(got.outputs, drawn.reshape(7, 4, 2, 3, drawn.shape[-1]), 1e-5, 1e-6)
    low, high = (end.reshape(4, 2, 3, F) for end in expected.interval(0.9))
    np.testing.assert_allclose(got.interval(0.9), (low, high), 1e-9)


@pytest.mark.parametrize("sigma_noise", NOISES)
def test_the_functions_of_an_ensemble(sigma_noise: Any) -> None:
    _, own, _ = fitted(sigma_noise)
    kept = tfbdl.predict(own, NEW, 5, return_samples=True, seed=1, verbose=0)
    again = tfbdl.predict(own.ensemble(5, seed=1), NEW, 5, return_samples=True, verbose=0)
    np.testing.assert_allclose(kept.outputs, again.outputs, 1e-4, 1e-5)


def test_positions_of_an_example_vary_together() -> None:
    """As under the Laplace of the last layer, which is exact at the posterior mean."""
    model, own, _ = fitted(0.6)
    phi = np.column_stack([features(model, X), np.ones(N * T)])
    w = np.linalg.solve(phi.T @ phi + 1.7 * 0.36 * np.eye(5), phi.T @ Y.reshape(-1, F))
    model.layers[-1].set_weights([w[:4].reshape(1, 1, 4, F), w[4]])
    options = {"hessian_structure": "full", "prior_precision": 1.7, "dtype": "float64"}
    laplace = Laplace(model, Normal(0.6), **options).fit(X, Y)
    for got, expected in zip(
        own.function_moments(NEW, batch_size=3), laplace.function_moments(NEW), strict=True
    ):
        np.testing.assert_allclose(got, expected, 1e-6, 1e-8)
    np.testing.assert_allclose(
        own.log_marginal_likelihood(), laplace.log_marginal_likelihood(), 1e-8
    )
    assert own.paths == laplace.paths


@pytest.mark.parametrize("sigma_noise", NOISES)
def test_what_a_mask_leaves_out(sigma_noise: Any) -> None:
    """Counts neither in the posterior nor in what is said of predictions."""
    words = np.where(np.arange(4) < RNG.integers(1, 5, (N, 1)), RNG.integers(1, 9, (N, 4)), 0)
    y = RNG.normal(size=(N, 4, F))
    embedding = keras.layers.Embedding(9, 4, mask_zero=True)
    inputs = keras.Input((4,), dtype="int32")
    model = keras.Model(inputs, keras.layers.Dense(F)(embedding(inputs)))
    own = NeuralLinear(model, sigma_noise=sigma_noise).fit(words, y)
    rows = np.asarray(embedding.embeddings)[words[words > 0]]
    expected = NeuralLinear(linear(), sigma_noise=sigma_noise).fit(rows, y[words > 0])
    np.testing.assert_allclose(
        own.log_marginal_likelihood(), expected.log_marginal_likelihood(), 1e-6
    )
    got = tfbdl.predict(own, words, verbose=0)
    np.testing.assert_array_equal(got.mask, words > 0)
    mean = tfbdl.predict(expected, rows, verbose=0).mean
    np.testing.assert_allclose(got.mean[words > 0], mean, 1e-4, 1e-5)


def test_weights_of_examples_and_updates() -> None:
    """An example that counts twice is two, in one fit or two."""
    twice = NeuralLinear(segmenting(), sigma_noise=0.6).fit(X, Y, sample_weight=[2, 1, 0, 1, 1])
    rows = [0, 0, 1, 3, 4]
    again = NeuralLinear(segmenting(), sigma_noise=0.6).fit(X[rows[:2]], Y[rows[:2]])
    again.update(X[rows[2:]], Y[rows[2:]])
    np.testing.assert_allclose(
        twice.log_marginal_likelihood(), again.log_marginal_likelihood(), 1e-6
    )


@pytest.mark.parametrize("sigma_noise", NOISES)
def test_joint_density(sigma_noise: Any) -> None:
    """What the evidence grows by: log p(y, D) - log p(D), of each example; also under a mask."""
    _, own, _ = fitted(sigma_noise)
    y = RNG.normal(size=(4, 2, 3, F))
    prediction = tfbdl.predict(own, NEW, verbose=0)
    before = float(own.log_marginal_likelihood())
    expected = []
    for x_n, y_n in zip(NEW, y, strict=True):
        _, more, _ = fitted(sigma_noise)
        more.update(x_n[np.newaxis], y_n[np.newaxis])
        expected.append(float(more.log_marginal_likelihood()) - before)
    np.testing.assert_allclose(prediction.log_prob(y), expected, 1e-6)
    np.testing.assert_allclose(prediction[1:3].log_prob(y[1:3]), expected[1:3], 1e-6)
    mask = np.zeros((4, 2, 3), bool)
    mask[:, 0, 1] = True
    alone = prediction.marginal.log_prob(y).numpy()[:, 0, 1].sum(axis=-1)
    one = dataclasses.replace(prediction, mask=mask)
    np.testing.assert_allclose(one.log_prob(y), alone, 1e-9)
    got = tfbdl.log_predictive_density(own, NEW, y, 5)
    np.testing.assert_allclose(got, expected, 1e-6)


def test_joint_densities_of_too_many_positions_are_not_kept() -> None:
    _, own, _ = fitted(0.6)
    with mock.patch.object(moments, "_KEPT", 100):
        prediction = tfbdl.predict(own, NEW, verbose=0)
    np.testing.assert_allclose(prediction.entropy, tfbdl.predict(own, NEW, verbose=0).entropy)
    with pytest.raises(ValueError, match=r"^log_prob needs the joint distribution of 12 outputs"):
        prediction.log_prob(np.zeros((4, 2, 3, F)))


@pytest.mark.parametrize(
    "arguments", [{"kernel_size": 2}, {"strides": 2}, {"groups": 2}, {"activation": "relu"}]
)
def test_other_convolutions_are_refused(arguments: Any) -> None:
    conv = keras.layers.Conv2D(**{"filters": 2, "kernel_size": 1, "name": "last", **arguments})
    model = keras.Sequential([keras.Input((4, 4, 2)), conv])
    message = r"^model=.* ends in the layer 'last' \(Conv2D\); let the last one be a Dense, or a "
    with pytest.raises(ValueError, match=message):
        NeuralLinear(model)
