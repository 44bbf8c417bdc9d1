"""Laplace on one set of data after another, against what exact inference says of all of them."""

from typing import Any

import keras
import numpy as np
import pytest
import scipy.stats

import tfbdl
from tfbdl.inference import Laplace, NotFittedError
from tfbdl.likelihoods import Categorical, Normal

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(70, 3)), RNG.normal(size=(70, 2))
A, B = slice(0, 40), slice(40, 70)
PHI = np.column_stack([X, np.ones(len(X))])
SIGMA, DELTA, MEAN = 0.5, 2.0, 0.3


def linear() -> Any:
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])


def mode(data: Any) -> Any:
    """The mean of exact linear regression on rows of the data, (4, 2), and its precision."""
    phi, y = PHI[data], Y[data]
    precision = phi.T @ phi / SIGMA**2 + DELTA * np.eye(4)
    return np.linalg.solve(precision, phi.T @ y / SIGMA**2 + DELTA * MEAN), precision


def at(model: Any, data: Any) -> Any:
    w, _ = mode(data)
    model.set_weights([w[:3], w[3]])
    return model


def laplace(model: Any, structure: str = "full", **given: Any) -> Any:
    settings = {"subset_of_weights": "all", "prior_precision": DELTA, "dtype": "float64"}
    settings |= {"prior_mean": MEAN, "hessian_structure": structure}
    return Laplace(model, Normal(SIGMA), **{**settings, **given})


def updated(structure: str) -> Any:
    model = at(linear(), A)
    posterior = laplace(model, structure).fit(X[A], Y[A])
    at(model, slice(None))
    return posterior.update(X[B], Y[B])


@pytest.mark.parametrize("structure", ["full", "lowrank"])
def test_two_tasks_are_exact_regression_on_both(structure: str) -> None:
    posterior = updated(structure)
    mean, precision = mode(slice(None))
    f, covariance = posterior.function_moments(X)
    np.testing.assert_allclose(f, PHI @ mean, atol=1e-5)
    variance = np.sum(PHI * np.linalg.solve(precision, PHI.T).T, axis=1)
    for k in range(2):
        np.testing.assert_allclose(covariance[:, k, k], variance, rtol=1e-5)
    marginal = SIGMA**2 * np.eye(70) + PHI @ PHI.T / DELTA
    law = scipy.stats.multivariate_normal(MEAN * PHI.sum(1), marginal)
    expected = law.logpdf(Y.T).sum()
    np.testing.assert_allclose(posterior.log_marginal_likelihood(), expected, rtol=1e-5)


@pytest.mark.parametrize("structure", ["full", "kron", "diag", "lowrank"])
def test_two_tasks_are_one_where_the_curvature_does_not_move(structure: str, tmp_path: Any) -> None:
    """Also where the posterior was saved in between; the evidence where no block is approximate."""
    both = laplace(at(linear(), slice(None)), structure).fit(X, Y)
    model = at(linear(), A)
    laplace(model, structure).fit(X[A], Y[A]).save(tmp_path / "a.keras")
    loaded = tfbdl.load(tmp_path / "a.keras")
    at(loaded.model, slice(None))
    loaded.update(X[B], Y[B]).save(tmp_path / "b.keras")
    for posterior in (updated(structure), tfbdl.load(tmp_path / "b.keras")):
        for mine, theirs in zip(
            posterior.function_moments(X), both.function_moments(X), strict=True
        ):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-9)
        if structure in ("full", "lowrank"):
            evidence = posterior.log_marginal_likelihood()
            np.testing.assert_allclose(evidence, both.log_marginal_likelihood(), rtol=1e-6)


@pytest.mark.parametrize("structure", ["full", "kron", "diag", "lowrank"])
def test_regulariser_is_the_posterior(structure: str) -> None:
    """Its value against draws' second moments, in a network with several blocks; put back after."""
    keras.utils.set_random_seed(0)
    decay = keras.regularizers.L2(0.1)
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, "tanh", kernel_regularizer=decay),
            keras.layers.Dense(3),
        ]
    )
    settings = {"subset_of_weights": "all", "hessian_structure": structure}
    posterior = Laplace(model, Categorical(), prior_precision=0.7, **settings)
    posterior.fit(X, np.arange(70) % 3)
    mean = np.concatenate([w.ravel() for w in model.get_weights()])
    draws = posterior.sample(4000, seed=1)
    precision = np.linalg.inv(np.cov(draws.T))
    step = 0.3 * np.random.default_rng(1).normal(size=mean.shape)
    before = float(sum(model.losses))
    with posterior.as_prior(num_data=20):
        np.testing.assert_allclose(float(sum(model.losses)), 0.0, atol=1e-6)
        ends = np.cumsum([w.size for w in model.get_weights()])[:-1]
        parts = np.split(mean + step, ends)
        shapes = [w.shape for w in model.get_weights()]
        weights = model.get_weights()
        model.set_weights([p.reshape(s) for p, s in zip(parts, shapes, strict=True)])
        penalty = float(sum(model.losses))
        model.set_weights(weights)
    np.testing.assert_allclose(penalty, step @ precision @ step / 40, rtol=0.1)
    np.testing.assert_allclose(float(sum(model.losses)), before, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("structure", ["full", "kron", "diag", "lowrank"])
def test_regulariser_of_a_linear_model_is_exact(structure: str, dtype: str) -> None:
    """It is exact in the precision, of small steps too: -log N(theta; mean, cov) / N."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, dtype=dtype)])
    posterior = laplace(at(model, A), structure).fit(X[A], Y[A])
    curvature = PHI[A].T @ PHI[A] / SIGMA**2
    if structure == "kron":
        curvature[3, :3] = curvature[:3, 3] = 0.0
    if structure == "diag":
        curvature = np.diag(np.diag(curvature))
    precision = curvature + DELTA * np.eye(4)
    mean = model.get_weights()
    tolerance = {"float32": 1e-3, "float64": 1e-6}[dtype]
    for size in (1e-3, 1.0):
        step = size * np.random.default_rng(1).normal(size=(4, 2))
        with posterior.as_prior(num_data=20):
            model.set_weights([mean[0] + step[:3], mean[1] + step[3]])
            penalty = float(sum(model.losses))
        expected = np.sum(step * (precision @ step)) / 40
        np.testing.assert_allclose(penalty, expected, rtol=tolerance if size < 1 else 1e-5)


def test_training_under_the_posterior_finds_the_mode_of_both() -> None:
    """Keras' own fit, of the second data alone, finds it."""
    model = at(linear(), A)
    posterior = laplace(model).fit(X[A], Y[A])
    with posterior.as_prior(num_data=30):
        model.compile(keras.optimizers.Adam(0.02), Normal(SIGMA))
        model.fit(X[B], Y[B], batch_size=30, epochs=600, verbose=0)
    posterior.update(X[B], Y[B])
    expected, _ = mode(slice(None))
    np.testing.assert_allclose(model.get_weights()[0], expected[:3], atol=2e-3)


def test_prior_mean() -> None:
    """As it is now, given as an array, and kept."""
    model = at(linear(), A)
    theta = np.concatenate([w.ravel() for w in model.get_weights()])
    current, given = laplace(model, prior_mean="current"), laplace(model, prior_mean=theta)
    at(model, B)
    for posterior in (current, given):
        np.testing.assert_allclose(posterior.prior_mean, theta)
        posterior.fit(X[B], Y[B])
    np.testing.assert_allclose(
        current.log_marginal_likelihood(), given.log_marginal_likelihood(), rtol=1e-12
    )
    again = Laplace.from_config(given.get_config())
    np.testing.assert_allclose(again.prior_mean, theta)


def test_refusals() -> None:
    model = at(linear(), A)
    with pytest.raises(NotFittedError, match="as_prior needs a fitted Laplace"):
        laplace(model).as_prior(10)
    for wrong, message in (
        ("now", "prior_mean='now' must be 'current', a number"),
        (np.zeros(3), r"prior_mean has shape \(3,\); give a number"),
        (np.inf, "must be finite"),
    ):
        with pytest.raises(ValueError, match=message):
            laplace(model, prior_mean=wrong)
    kernel = laplace(model, subset_of_weights=[model.weights[0].path])
    kernel.fit(X[A], Y[A])
    at(model, B)
    with pytest.raises(ValueError, match="changed in weights that have no posterior"):
        kernel.update(X[B], Y[B])
