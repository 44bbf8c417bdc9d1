"""Data that priors and posteriors make, against closed forms, and ArviZ on arrays of SciPy's."""

import warnings
from typing import Any

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf
from arviz_alone import arviz

import tfbdl
from tfbdl import layers, priors
from tfbdl.checking import predictive_check, prior_predictive, replicate, to_arviz
from tfbdl.inference import MCMC, Laplace
from tfbdl.likelihoods import Categorical, Normal, Poisson

RNG = np.random.default_rng(0)
N, D, SIGMA, GAMMA = 12, 2, 0.5, 0.8
X = RNG.normal(size=(N, D)).astype("float32")
Y = (X @ [[1.0], [-0.5]] + SIGMA * RNG.normal(size=(N, 1))).astype("float32")


def linear(likelihood: Any = None) -> Any:
    model = keras.Sequential([keras.Input((D,)), keras.layers.Dense(1, use_bias=False)])
    model.compile("adam", likelihood or Normal(SIGMA))
    return model


def bayesian(**given: Any) -> Any:
    keras.utils.set_random_seed(0)
    dense = layers.BayesDense(1, num_data=N, seed=1, **{"prior": GAMMA, **given})
    model = keras.Sequential([keras.Input((D,)), dense])
    model.compile("adam", Normal(SIGMA))
    return model


def of_functions(outputs: Any, likelihood: Any) -> Any:
    mean = outputs.mean(axis=0)
    return tfbdl.Prediction(mean, 0 * mean, 0 * mean, None, len(outputs), likelihood, outputs)


@pytest.mark.parametrize("kind", ["layers", "prior", "by name"])
def test_prior_predictive_moments(kind: str) -> None:
    """f(x) ~ N(0, gamma^2 |x|^2), with a bias |(x, 1)|^2; y has the noise beside it."""
    S = 1000
    prior = {"prior": priors.Normal(scale=GAMMA), "by name": {"kernel": GAMMA}}
    given = {"prior": prior[kind]} if kind in prior else {}
    model = bayesian() if kind == "layers" else linear()
    prediction = prior_predictive(model, X, S, seed=1, **given)
    variance = GAMMA**2 * ((X**2).sum(axis=1) + (kind == "layers"))
    f = prediction.outputs[..., 0]
    assert f.shape == (S, N)
    for n in range(N):
        assert (
            scipy.stats.kstest(f[:, n], scipy.stats.norm(0, np.sqrt(variance[n])).cdf).pvalue > 1e-4
        )
    np.testing.assert_allclose(prediction.epistemic_variance[:, 0], f.var(axis=0), rtol=1e-4)
    np.testing.assert_allclose(prediction.aleatoric_variance, SIGMA**2, rtol=1e-5)
    y = replicate(prediction, seed=2)[..., 0]
    assert y.shape == (S, N)
    noise = y - f
    assert scipy.stats.kstest(noise.ravel(), scipy.stats.norm(0, SIGMA).cdf).pvalue > 1e-4
    one_function = np.linalg.lstsq(X, (f - (kind == "layers") * f.mean()).T, rcond=None)
    assert kind == "layers" or one_function[1].max() < 1e-6  # all x of a draw have one w


def test_prior_draws_leave_the_model_as_it_was() -> None:
    model = bayesian()
    before = tfbdl.predict(model, X, 5, seed=0).mean
    first = prior_predictive(model, X, 5, seed=3, batch_size=5)
    np.testing.assert_array_equal(tfbdl.predict(model, X, 5, seed=0).mean, before)
    again = prior_predictive(model, X, 5, seed=3)
    np.testing.assert_allclose(again.outputs, first.outputs, rtol=1e-5)
    other = prior_predictive(model, X, 5, seed=4)
    assert np.abs(other.outputs - first.outputs).min() > 1e-4


def test_prior_of_recurrent_and_deep_models() -> None:
    """Every random layer draws from its prior: of tiny scale, outputs are those of zero weights."""
    sequence = RNG.normal(size=(3, 4, 2)).astype("float32")
    model = keras.Sequential(
        [
            keras.Input((4, 2)),
            layers.BayesLSTM(3, num_data=N, prior=1e-4),
            layers.BayesDense(2, num_data=N, prior=1e-4),
        ]
    )
    prediction = prior_predictive(model, sequence, 4, likelihood=Normal(1.0))
    assert np.abs(prediction.outputs).max() < 1e-2
    assert np.abs(tfbdl.predict(model, sequence, 4, likelihood=Normal(1.0)).mean).max() > 1e-2


def test_prior_p_values_are_uniform() -> None:
    """Data from the prior have uniform ones, whatever the statistic."""
    prediction = prior_predictive(linear(), X, 600, prior=GAMMA)
    replicates = replicate(prediction)
    w = GAMMA * RNG.normal(size=(300, D))
    data = w @ X.T + SIGMA * RNG.normal(size=(300, N))
    for statistic in (np.max, np.std):
        p = [predictive_check(y, replicates, statistic).p_value for y in data]
        assert scipy.stats.kstest(p, "uniform").pvalue > 1e-3


def test_posterior_p_value_in_closed_form() -> None:
    """T = y_1 under N(f, sigma^2), for functions that are known: mean of Phi((f_s - y_1) / s)."""
    outputs = RNG.normal(size=(10_000, N, 1)).astype("float32")
    replicates = replicate(of_functions(outputs, Normal(SIGMA)), seed=1)
    for y_1 in (-1.0, 0.3, 2.0):
        y = np.full((N, 1), y_1)
        check = predictive_check(y, replicates, lambda data: data[0, 0])
        expected = scipy.stats.norm.cdf((outputs[:, 0, 0] - y_1) / SIGMA).mean()
        assert abs(check.p_value - expected) < 5 * 0.5 / np.sqrt(len(outputs))
        assert check.observed == y_1


def test_ties_count_half() -> None:
    replicates = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [2.0, 2.0]])
    check = predictive_check([1.0, 1.0], replicates, np.max)
    assert check.p_value == (1 + 0.5 * 2) / 4
    np.testing.assert_array_equal(check.replicated, [0, 1, 1, 2])
    counts = replicate(of_functions(np.full((50, 3, 1), -200.0, "float32"), Poisson()))
    assert predictive_check(np.zeros(3), counts, np.max).p_value == 0.5


def test_replicates_of_classes() -> None:
    logits = np.log(np.tile([[0.2, 0.5, 0.3]], (2000, 4, 1))).astype("float32")
    labels = replicate(of_functions(logits, Categorical()), seed=1)
    assert labels.shape == (2000, 4)
    counts = np.bincount(labels.ravel().astype(int), minlength=3)
    assert scipy.stats.chisquare(counts, 8000 * np.array([0.2, 0.5, 0.3])).pvalue > 1e-3


MANY = RNG.normal(size=(40, D)).astype("float32")
LABELS = (MANY @ [[1.0], [-0.5]] + SIGMA * RNG.normal(size=(40, 1))).astype("float32")


def exact_loo(X: Any = MANY, Y: Any = LABELS) -> Any:
    """log p(y_n | all others) of Bayesian linear regression, each in closed form."""
    logs = []
    for n in range(len(X)):
        others = np.delete(np.arange(len(X)), n)
        precision = X[others].T @ X[others] / SIGMA**2 + np.eye(D) / GAMMA**2
        covariance = np.linalg.inv(precision)
        mean = covariance @ X[others].T @ Y[others, 0] / SIGMA**2
        scale = np.sqrt(X[n] @ covariance @ X[n] + SIGMA**2)
        logs.append(scipy.stats.norm(X[n] @ mean, scale).logpdf(Y[n, 0]))
    return np.array(logs)


def test_loo_of_chains_against_the_exact_one() -> None:
    """And the log likelihoods against SciPy's, given to ArviZ as arrays."""
    mcmc = MCMC(linear(), GAMMA, num_chains=4, num_warmup=200, num_samples=500).fit(
        MANY, LABELS, verbose=0
    )
    data = to_arviz(mcmc, LABELS, MANY)
    w = np.swapaxes(mcmc.theta, 0, 1)
    logs = scipy.stats.norm(w @ MANY.T, SIGMA).logpdf(LABELS[:, 0])
    np.testing.assert_allclose(data.log_likelihood["y"], logs, rtol=1e-4, atol=1e-5)
    loo = arviz.loo(data, pointwise=True)
    np.testing.assert_allclose(loo.loo_i, exact_loo(), atol=0.03)
    assert loo.pareto_k.max() < 0.7
    by_hand = arviz.from_dict(posterior={"w": w}, log_likelihood={"y": logs})
    np.testing.assert_allclose(loo.elpd_loo, arviz.loo(by_hand).elpd_loo, rtol=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ArviZ, that loo is better
        waic = arviz.waic(data, pointwise=True)
    lppd = scipy.special.logsumexp(logs, axis=(0, 1)) - np.log(2000)
    expected = lppd - logs.reshape(-1, 40).var(axis=0)
    np.testing.assert_allclose(waic.waic_i, expected, atol=1e-3)
    error = arviz.mcse(data)[next(iter(data.posterior))].to_numpy().ravel()
    exact = (
        np.linalg.inv(MANY.T @ MANY / SIGMA**2 + np.eye(D) / GAMMA**2)
        @ MANY.T
        @ LABELS[:, 0]
        / SIGMA**2
    )
    assert (np.abs(w.mean(axis=(0, 1)) - exact) < 5 * error).all()
    assert data.posterior_predictive["y"].shape == (4, 500, 40, 1)
    np.testing.assert_array_equal(data.observed_data["y"], LABELS)


def test_loo_of_a_prediction() -> None:
    """Independent draws of the exact posterior, which Laplace's is here."""
    laplace = Laplace(linear(), prior_precision=GAMMA**-2, pred_type="nn")
    model = laplace.model
    precision = MANY.T @ MANY / SIGMA**2 + np.eye(D) / GAMMA**2
    model.set_weights([np.linalg.solve(precision, MANY.T @ LABELS) / SIGMA**2])
    prediction = tfbdl.predict(laplace.fit(MANY, LABELS), MANY, 2000, seed=0, return_samples=True)
    data = to_arviz(prediction, LABELS)
    loo = arviz.loo(data, pointwise=True)
    np.testing.assert_allclose(loo.loo_i, exact_loo(), atol=0.03)
    assert 1.0 < loo.p_loo < 3.0
    assert data.posterior["f(x)"].shape == (1, 2000, 40, 1)


def test_positions_that_a_mask_leaves_out_have_no_likelihood() -> None:
    """Tokens that are 0 have none, in predictions and chains alike."""
    keras.utils.set_random_seed(0)
    tokens = np.array([[1, 2, 0], [2, 0, 0], [1, 1, 2]])
    y = RNG.normal(size=(3, 3, 1)).astype("float32")
    model = keras.Sequential(
        [
            keras.Input((3,), dtype="int32"),
            keras.layers.Embedding(3, 2, mask_zero=True),
            layers.BayesDense(1, num_data=3, seed=1),
        ]
    )
    prediction = prior_predictive(model, tokens, 4, likelihood=Normal(SIGMA))
    of_each = scipy.stats.norm(prediction.outputs, SIGMA).logpdf(y)[..., 0] * (tokens > 0)
    logs = to_arviz(prediction, y).log_likelihood["y"][0]
    np.testing.assert_allclose(logs, of_each.sum(axis=-1), rtol=1e-4)
    plain = keras.Sequential([*model.layers[:1], keras.layers.Dense(1)])
    plain.build((None, 3))
    mcmc = MCMC(plain, 1.0, likelihood=Normal(SIGMA), num_chains=1, num_warmup=20, num_samples=5)
    logs = to_arviz(mcmc.fit(tokens, y, verbose=0), y, tokens).log_likelihood["y"][0]
    f = mcmc.outputs(tokens)[:, 0]
    of_each = scipy.stats.norm(f, SIGMA).logpdf(y)[..., 0] * (tokens > 0)
    np.testing.assert_allclose(logs, of_each.sum(axis=-1), rtol=1e-4)


def test_refusals() -> None:
    kept = of_functions(np.zeros((3, N, 1), "float32"), Normal(1.0))
    bare = tfbdl.predict(bayesian(), X, 3, seed=0)
    nothing = of_functions(np.zeros((3, N, 1), "float32"), None)
    for call, message in (
        (lambda: prior_predictive(linear(), X), "has no layer with priors; give prior="),
        (lambda: prior_predictive(bayesian(), X, prior=1.0), "^prior is given, but layers of"),
        (lambda: prior_predictive(linear(), X, prior=lambda w: 0.0), "^prior is a function, which"),
        (lambda: prior_predictive(linear(), X, prior="flat"), "improper"),
        (lambda: prior_predictive(bayesian(prior="flat"), X), "improper"),
        (lambda: prior_predictive(bayesian(), X, 0), "^num_samples=0 must be a positive integer"),
        (lambda: prior_predictive(bayesian(), X[:, :1]), "^x has examples of shape .1,., which"),
        (lambda: replicate(bare), "^prediction kept no functions; call predict with return_sam"),
        (lambda: replicate(nothing), "^prediction has no likelihood, and so no noise"),
        (lambda: to_arviz(bare, Y), "^prediction kept no functions; call predict with return_sam"),
        (lambda: to_arviz(kept, Y[:2]), "^y has shape .2, 1.; give one y for each of the 12"),
        (lambda: to_arviz(kept, Y, X), "^x is for MCMC; a prediction has its own"),
        (lambda: to_arviz(MCMC(linear(), 1.0), Y), "^x=None: give inputs$"),
        (lambda: to_arviz(linear(), Y), "^source=.* must be a fitted inference.MCMC, or what"),
        (lambda: predictive_check(Y, Y, np.max), "^replicates has shape .12, 1.; y of shape"),
        (lambda: predictive_check(Y, Y[None], np.sort), "^statistic gives .*; give a function of"),
        (lambda: predictive_check(Y, Y[None], 3), "^statistic=3 must be a function of one data"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_seeds_and_types() -> None:
    prediction = of_functions(RNG.normal(size=(4, N, 1)).astype("float32"), Normal(1.0))
    first, again, other = (replicate(prediction, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).min() > 1e-6
    assert isinstance(first, np.ndarray)
    assert not tf.is_tensor(first)
