"""Likelihoods of mean and shape from end to end, against estimates and integrals of SciPy."""

from typing import Any

import keras
import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

import tfbdl
from tfbdl import inference, likelihoods

N = 400
RNG = np.random.default_rng(0)
X = np.ones((N, 1), "float32")
MIXED = np.where(RNG.uniform(size=N) < 0.3, -3.0, 2.0) + 0.5 * RNG.normal(size=N)


def softplus(raw: Any) -> Any:
    return np.log1p(np.exp(raw)) + 1e-6


def gamma(f: Any) -> Any:
    return scipy.stats.gamma(softplus(f[1]), scale=np.exp(f[0]) / softplus(f[1])).logpdf


def counts(f: Any) -> Any:
    r = softplus(f[1])
    return scipy.stats.nbinom(r, r / (r + np.exp(f[0]))).logpmf


def beta(f: Any) -> Any:
    m = 1 / (1 + np.exp(-f[0]))
    return scipy.stats.beta(m * softplus(f[1]), (1 - m) * softplus(f[1])).logpdf


def mixture(f: Any) -> Any:
    norm = scipy.stats.norm(f[2:4, None], softplus(f[4:, None]))
    return lambda y: scipy.special.logsumexp(
        scipy.special.log_softmax(f[:2])[:, None] + norm.logpdf(y), axis=0
    )


CASES = {
    "gamma": (likelihoods.Gamma(), gamma, RNG.gamma(2.0, 3.0, N), [0.0, 0.0]),
    "negative binomial": (
        likelihoods.NegativeBinomial(),
        counts,
        RNG.negative_binomial(2, 0.3, N),
        [0.0, 0.0],
    ),
    "beta": (likelihoods.Beta(), beta, RNG.beta(2.0, 5.0, N), [0.0, 4.0]),
    "mixture": (likelihoods.NormalMixture(2), mixture, MIXED, [0.0, 0.0, -1.0, 1.0, 0.0, 0.0]),
}


def network(name: str, *, random: bool = False) -> Any:
    likelihood, _, _, start = CASES[name]
    kernel = keras.initializers.Constant([start])
    layer = keras.layers.Dense(len(start), kernel_initializer=kernel, use_bias=False)
    if random:
        layer = tfbdl.layers.BayesDense(len(start), num_data=N, use_bias=False)
    model = keras.Sequential([keras.Input((1,)), layer])
    model.compile(keras.optimizers.Adam(0.05), likelihood)
    return model


def targets(name: str) -> Any:
    return CASES[name][2].astype("float32")[:, None]


def estimate(name: str) -> Any:
    """The maximum of SciPy's likelihood, by a search that uses no gradients of ours."""
    _, law, y, start = CASES[name]
    loss = lambda f: -np.mean(law(f)(y))  # noqa: E731
    options = {"xatol": 1e-6, "fatol": 1e-10, "maxiter": 20_000, "maxfev": 20_000}
    optimum = scipy.optimize.minimize(loss, start, method="Nelder-Mead", options=options)
    return optimum.x, optimum.fun


@pytest.mark.parametrize("name", CASES)
def test_fit_and_train_find_the_estimate(name: str) -> None:
    _, least = estimate(name)
    y = targets(name)
    examples = tf.data.Dataset.from_tensor_slices((X, y)).repeat(400)

    def train(model: Any) -> None:
        settings = {"num_data": 400 * N, "batch_size": N, "epochs": 1, "verbose": 0}
        tfbdl.train(model, lambda epoch, context: examples, **settings)

    for way in (lambda model: model.fit(examples.batch(N), verbose=0), train):
        model = network(name)
        assert model.evaluate(X, y, batch_size=N, verbose=0) > least + 0.1
        way(model)
        assert model.evaluate(X, y, batch_size=N, verbose=0) == pytest.approx(least, abs=2e-4)


U = np.linspace(-30, 30, 40_001)
STEP = U[1] - U[0]
SUPPORT = {  # values of y, and weights with which a sum over them is one, or an integral, over all
    "gamma": (np.exp(U), STEP * np.exp(U)),
    "negative binomial": (np.arange(2000.0), np.ones(2000)),
    "beta": (scipy.special.expit(U), STEP * scipy.special.expit(U) * scipy.special.expit(-U)),
    "mixture": (U, np.full(U.shape, STEP)),
}


@pytest.mark.parametrize("name", CASES)
def test_predict_has_the_moments_of_the_law(name: str) -> None:
    """A network without random weights, and sums or integrals of SciPy's law."""
    model, (likelihood, law, _, start) = network(name), CASES[name]
    log_p = law(np.array(start))
    nodes, weights = SUPPORT[name]
    p = weights * np.exp(log_p(nodes))
    mean = np.sum(p * nodes)
    prediction = tfbdl.predict(model, X[:3], 0, verbose=0)
    np.testing.assert_allclose(prediction.mean, np.full((3, 1), mean), 1e-5, 1e-7)
    variance = np.full((3, 1), np.sum(p * (nodes - mean) ** 2))
    np.testing.assert_allclose(prediction.aleatoric_variance, variance, 1e-5)
    if likelihood.has_entropy:
        expected = np.full(3, -np.sum(p * log_p(nodes)))
        np.testing.assert_allclose(prediction.expected_entropy, expected, 1e-4, 1e-5)
    else:
        assert prediction.expected_entropy is None


@pytest.mark.parametrize("name", CASES)
def test_random_weights_and_laplace(name: str) -> None:
    """Laplace at the estimate: the covariance of the outputs is that of the Hessian of SciPy's."""
    drawn = tfbdl.predict(network(name, random=True), X[:3], 8, seed=0, verbose=0)
    assert (drawn.epistemic_variance > 0).all()
    f, _ = estimate(name)
    model, (_, law, y, _) = network(name), CASES[name]
    model.layers[0].set_weights([f[None]])
    settings = {"subset_of_weights": "all", "hessian_structure": "full", "dtype": "float64"}
    laplace = inference.Laplace(model, curvature="hessian", prior_precision=1.0, **settings)
    laplace.fit(X, targets(name))
    h, step = np.eye(len(f)), 1e-3
    for i, j in np.ndindex(h.shape):
        a, b = step * np.eye(len(f))[i], step * np.eye(len(f))[j]
        crossed = [np.sum(law(f + s * a + t * b)(y)) * s * t for s in (1, -1) for t in (1, -1)]
        h[i, j] -= np.sum(crossed) / (4 * step**2)
    _, covariance = laplace.function_moments(X[:1])
    np.testing.assert_allclose(covariance[0], np.linalg.inv(h), rtol=2e-3, atol=1e-6)
    prediction = tfbdl.predict(laplace, X[:3], 50, seed=0, verbose=0)
    np.testing.assert_allclose(prediction.mean, np.full((3, 1), y.mean()), rtol=0.2)


TFD = tfp.distributions
OUTPUTS = tf.constant(RNG.normal(size=(6, 2)))
SCALE = tf.math.softplus(OUTPUTS[:, 1:]) + 1e-6
MEAN, SHARE = tf.exp(OUTPUTS[:, :1]), tf.sigmoid(OUTPUTS[:, :1])
THEIRS = {
    "gamma": TFD.Gamma(SCALE, SCALE / MEAN),
    "negative binomial": TFD.NegativeBinomial(SCALE, probs=MEAN / (MEAN + SCALE)),
    "beta": TFD.Beta(SHARE * SCALE, (1 - SHARE) * SCALE),
}


@pytest.mark.parametrize("name", THEIRS)
def test_against_tensorflow_probability(name: str) -> None:
    likelihood, theirs, y = CASES[name][0], THEIRS[name], CASES[name][2][:6, None].astype(float)
    got, expected = likelihood.log_prob(y, OUTPUTS), tf.reduce_sum(theirs.log_prob(y), axis=1)
    np.testing.assert_allclose(got, expected, 1e-11, 1e-12)
    np.testing.assert_allclose(likelihood.mean(OUTPUTS), theirs.mean(), 1e-12)
    np.testing.assert_allclose(likelihood.variance(OUTPUTS), theirs.variance(), 1e-11)
    if likelihood.has_entropy:
        entropy = tf.reduce_sum(theirs.entropy(), axis=1)
        np.testing.assert_allclose(likelihood.entropy(OUTPUTS), entropy, 1e-10, 1e-11)


BAD = {
    "gamma": (0.0, r"^y has the value 0; give positive numbers$"),
    "negative binomial": (1.5, r"^y has the value 1.5; give counts 0, 1, ...$"),
    "beta": (1.0, r"^y has the value 1; give numbers strictly between 0 and 1$"),
}


@pytest.mark.parametrize("name", BAD)
def test_targets_that_cannot_be(name: str) -> None:
    value, message = BAD[name]
    likelihood, y = CASES[name][0], np.array([[0.5 if name == "beta" else 1.0], [value]])
    with pytest.raises(ValueError, match=message):
        likelihood.check_targets(y, tf.zeros([1, 2]))
    with pytest.raises(ValueError, match=r"^y is not finite in example 0; remove it"):
        likelihood.check_targets(np.full([2, 1], np.inf), tf.zeros([1, 2]))
    with pytest.raises(ValueError, match=r"^y has shape \(2, 3\); these outputs describe"):
        likelihood.check_targets(np.ones([2, 3]), tf.zeros([1, 2]))
    with pytest.raises(
        ValueError, match=r"^outputs has shape \(1, 3\); .* needs an even last axis"
    ):
        likelihood.check(tf.zeros([1, 3]))
    for wrong in (-1.0, np.nan):
        assert np.isnan(likelihood.log_prob(np.array([[wrong]]), tf.zeros([1, 2])))
    with pytest.raises(ValueError, match=f"^likelihood={type(likelihood).__name__} has no cdf"):
        likelihood.cdf(y, tf.zeros([1, 2]))


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__]))
