"""Laplace where some positions do not count: H of the others alone, written out by hand."""

from typing import Any

import brute_force
import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

import tfbdl
from tfbdl import likelihoods
from tfbdl.inference import Laplace, LogPosterior

RNG = np.random.default_rng(5)
NUM, T, C, WORDS = 6, 4, 3, 7
X = RNG.normal(size=(NUM, T, 2))
Y = RNG.integers(0, C, (NUM, T))
COUNTED = RNG.random((NUM, T)) < 0.6
COUNTED[0], COUNTED[1] = False, True
IGNORED = np.where(COUNTED, Y, 255)
TOKENS = RNG.integers(1, WORDS, (NUM, T)) * COUNTED
DELTA = 0.8


def network(last: Any = None, *, masked: bool = False) -> keras.Model:
    """Classes at each of T positions, behind a layer that mixes them; of tokens with a mask."""
    keras.utils.set_random_seed(1)
    layers = keras.layers
    inputs = keras.Input((T,), dtype="int32") if masked else keras.Input((T, 2))
    h = layers.Embedding(WORDS, 2, mask_zero=True)(inputs) if masked else inputs
    h = layers.SimpleRNN(3, return_sequences=True, unroll=True)(h)
    return brute_force.randomised(keras.Model(inputs, layers.Dense(C, last, name="last")(h)))


def pointwise() -> keras.Model:
    """The same at each position, whatever the others hold."""
    keras.utils.set_random_seed(1)
    body = keras.layers.Dense(4, "tanh")
    return brute_force.randomised(keras.Sequential([keras.Input((None, 2)), body, _last()]))


def _last() -> Any:
    return keras.layers.Dense(C, name="last")


def fitted(model: Any, x: Any, y: Any, likelihood: Any = None, **arguments: Any) -> Laplace:
    settings = {"prior_precision": DELTA, "dtype": "float64", "jit_compile": False, **arguments}
    likelihood = likelihoods.Categorical(ignore_class=255) if likelihood is None else likelihood
    return Laplace(model, likelihood, **settings).fit(x, y, batch_size=4)


def jacobian(model: keras.Model, x: Any) -> tuple[Any, Any]:
    """Logits (N, T, C) and their gradients in all weights (N, T, C, P), one by one."""
    weights = [v.value for v in model.trainable_variables]
    with tf.GradientTape(persistent=True) as tape:
        f = model(x)
        numbers = tf.unstack(tf.reshape(f, [-1]))
    rows = [tape.gradient(n, weights, unconnected_gradients="zero") for n in numbers]
    j = [np.concatenate([np.ravel(tf.convert_to_tensor(g)) for g in row]) for row in rows]
    return f.numpy().astype(np.float64), np.reshape(j, [*f.shape, -1]).astype(np.float64)


def ggn(model: keras.Model, x: Any, counted: Any) -> Any:
    f, j = jacobian(model, x)
    p, j = scipy.special.softmax(f, axis=-1)[counted], j[counted]
    fisher = [np.diag(q) - np.outer(q, q) for q in p]
    return np.einsum("nca,ncd,ndb->ab", j, fisher, j)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("of_softmax", [False, True])
def test_whole_network(masked: bool, of_softmax: bool) -> None:
    """Full curvature, and evidence."""
    model, x = network(masked=masked), TOKENS if masked else X
    expected = ggn(model, x, COUNTED)
    given = network("softmax" if of_softmax else None, masked=masked)
    family = likelihoods.Categorical(not of_softmax, ignore_class=None if masked else 255)
    y = Y if masked else IGNORED
    settings = {"subset_of_weights": "all", "hessian_structure": "full"}
    laplace = fitted(given, x, y, family, **settings)
    precision = brute_force.precision(laplace)
    np.testing.assert_allclose(
        precision - DELTA * np.eye(len(precision)), expected, 1e-4, 1e-5 * np.abs(expected).max()
    )
    f = model(x).numpy().astype(np.float64)
    of_labels = np.take_along_axis(scipy.special.log_softmax(f, -1), Y[..., None], -1)[..., 0]
    theta = np.concatenate([np.ravel(w) for w in model.trainable_variables])
    evidence = (
        of_labels[COUNTED].sum()
        - 0.5 * DELTA * theta @ theta
        + 0.5 * len(theta) * np.log(DELTA)
        - 0.5 * np.linalg.slogdet(precision)[1]
    )
    np.testing.assert_allclose(laplace.log_marginal_likelihood(), evidence, 1e-5)


@pytest.mark.parametrize("structure", ["diag", "kron", "full", "lowrank"])
@pytest.mark.parametrize("subset", ["last_layer", "all"])
def test_positions_that_count_are_examples(subset: str, structure: str) -> None:
    """A network of each position alone; the inputs of all are in Kronecker factors of "all"."""
    if (subset, structure) == ("all", "kron"):
        return
    settings = {"subset_of_weights": subset, "hessian_structure": structure}
    laplace = fitted(pointwise(), X, IGNORED, **settings)
    alone = fitted(pointwise(), X[COUNTED][:, None], Y[COUNTED][:, None], **settings)
    matrices = [np.linalg.inv(brute_force.precision(fit)) for fit in (laplace, alone)]
    np.testing.assert_allclose(*matrices, 1e-5, 1e-6 * np.abs(matrices[0]).max())
    evidence = [float(fit.log_marginal_likelihood()) for fit in (laplace, alone)]
    np.testing.assert_allclose(*evidence, 1e-6)
    got = tfbdl.predict(laplace, X, 5, seed=1, verbose=0).mean
    of_each = tfbdl.predict(alone, X.reshape(-1, 1, 2), 5, seed=1, verbose=0).mean
    np.testing.assert_allclose(got, of_each.reshape(got.shape), 1e-5)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("curvature", ["ef", "hessian", "mc_fisher"])
def test_other_curvatures(curvature: str, masked: bool) -> None:
    model, x = network(masked=masked), TOKENS if masked else X
    family = likelihoods.Categorical(ignore_class=None if masked else 255)
    settings = {"subset_of_weights": "all", "hessian_structure": "full", "curvature": curvature}
    delta = 50.0  # the Hessian has eigenvalues below 0
    laplace = fitted(model, x, Y if masked else IGNORED, family, **settings, prior_precision=delta)
    got = brute_force.precision(laplace) - delta * np.eye(laplace.sample(1).shape[1])
    f, j = jacobian(model, x)
    p = scipy.special.softmax(f, axis=-1)
    if curvature == "ef":
        scores = np.einsum("ntc,ntcp,nt->np", np.eye(C)[Y] - p, j, COUNTED)
        expected = np.einsum("np,nq->pq", scores, scores)
        np.testing.assert_allclose(got, expected, 1e-4, 1e-5 * np.abs(expected).max())
    elif curvature == "hessian":
        expected = _differences(model, x, masked)
        np.testing.assert_allclose(got, expected, 1e-5, 1e-5 * np.abs(expected).max())
    else:
        rank = np.linalg.matrix_rank(got, tol=1e-8 * np.abs(got).max())
        assert rank <= COUNTED.any(axis=1).sum()


def _differences(model: keras.Model, x: Any, masked: bool, step: float = 1e-4) -> Any:
    """The Hessian of -log p, from differences of its gradients."""
    family = likelihoods.Categorical(ignore_class=None if masked else 255)
    y = Y if masked else IGNORED
    density = LogPosterior(model, 1.0, x, y, likelihood=family, dtype="float64")
    theta = density.theta

    def gradient(at: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(at)
            value = -density.log_likelihood(at)
        return tape.gradient(value, at).numpy()

    unit = step * np.eye(len(theta))
    return np.stack([(gradient(theta + u) - gradient(theta - u)) / (2 * step) for u in unit])


@pytest.mark.parametrize("masked", [False, True])
def test_log_posterior(masked: bool) -> None:
    """The target of MAP and MCMC, for chains and in chunks."""
    model, x = network(masked=masked), TOKENS if masked else X
    family = likelihoods.Categorical(ignore_class=None if masked else 255)
    f = model(x).numpy().astype(np.float64)
    of_labels = np.take_along_axis(scipy.special.log_softmax(f, -1), Y[..., None], -1)[..., 0]
    for batch_size in (None, 4):
        density = LogPosterior(
            model, 1.0, x, Y if masked else IGNORED, likelihood=family, batch_size=batch_size
        )
        both = tf.stack([density.theta, density.theta])
        for got in (density.log_likelihood(density.theta), *density.log_likelihood(both)):
            np.testing.assert_allclose(got, of_labels[COUNTED].sum(), 1e-5)


def test_normal_noise_of_masked_positions() -> None:
    """Log p counts the numbers that are there: the noise that fits best is theirs."""
    model, y = network(masked=True), RNG.normal(size=(NUM, T, C))
    laplace = fitted(model, TOKENS, y, likelihoods.Normal(0.7), subset_of_weights="last_layer")
    residuals = (y - model(TOKENS).numpy())[COUNTED]
    for sigma in (0.5, 2.0):
        evidence = laplace.log_marginal_likelihood(sigma_noise=sigma)
        other = laplace.log_marginal_likelihood(sigma_noise=sigma * 1.001)
        slope = (float(other) - float(evidence)) / np.log(1.001)
        fit = np.sum(residuals**2) / sigma**2 - residuals.size
        volume = _slope_of_volume(laplace, sigma)
        np.testing.assert_allclose(slope, fit + volume, rtol=0.02, atol=0.05)


def _slope_of_volume(laplace: Laplace, sigma: float) -> float:
    """d / d log sigma of -1/2 log det (H / sigma^2 + delta)."""
    at_noise = brute_force.precision(laplace) - DELTA * np.eye(laplace.sample(1).shape[1])
    values = np.maximum(np.linalg.eigvalsh(at_noise * 0.7**2), 0.0) / sigma**2
    return float(np.sum(values / (values + DELTA)))


def test_several_outputs() -> None:
    """Each has its own positions; one of them ignores labels, and the others count."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((T, 2))
    h = keras.layers.Dense(4, "tanh")(inputs)
    heads = {"a": keras.layers.Dense(C)(h), "b": keras.layers.Dense(2)(h)}
    model = brute_force.randomised(keras.Model(inputs, heads))
    targets = {"a": IGNORED, "b": RNG.normal(size=(NUM, T, 2))}
    likelihood = {"a": likelihoods.Categorical(ignore_class=255), "b": likelihoods.Normal(0.5)}
    settings = {"subset_of_weights": "all", "hessian_structure": "full"}
    laplace = fitted(model, X, targets, likelihood, **settings)
    of_a, of_b = (keras.Model(inputs, heads[name]) for name in "ab")
    expected: Any = 0.0
    every = {id(v): v.shape.num_elements() for v in model.trainable_variables}
    starts = dict(zip(every, np.cumsum([0, *every.values()])[:-1], strict=True))

    def whole(part: keras.Model, h: Any) -> Any:
        variables = part.trainable_variables
        index = np.concatenate([starts[id(v)] + np.arange(every[id(v)]) for v in variables])
        matrix = np.zeros([sum(every.values())] * 2)
        matrix[np.ix_(index, index)] = h
        return matrix

    expected = whole(of_a, ggn(of_a, X, COUNTED))
    _, j = jacobian(of_b, X)
    expected += whole(of_b, np.einsum("ntca,ntcb->ab", j, j) / 0.25)
    got = brute_force.precision(laplace) - DELTA * np.eye(len(expected))
    np.testing.assert_allclose(got, expected, 1e-4, 1e-5 * np.abs(expected).max())


def test_nothing_that_counts() -> None:
    with pytest.raises(ValueError, match="y has no label that counts"):
        fitted(network(), X, np.full((NUM, T), 255))


@pytest.mark.parametrize("pred_type", ["glm", "nn"])
def test_predictions_know_their_mask(pred_type: str) -> None:
    """Log p is that of the positions that count, also of a loaded posterior."""
    model = network(masked=True)
    laplace = fitted(model, TOKENS, Y, pred_type=pred_type)
    prediction = tfbdl.predict(laplace, TOKENS, 20, return_samples=True, verbose=0)
    np.testing.assert_array_equal(prediction.mask, COUNTED)
    np.testing.assert_array_equal(prediction[2:4].mask, COUNTED[2:4])
    log_p = scipy.special.log_softmax(prediction.outputs.astype(np.float64), axis=-1)
    of_labels = np.take_along_axis(log_p, Y[None, ..., None], axis=-1)[..., 0]
    logs = (of_labels * COUNTED).sum(axis=2)
    expected = scipy.special.logsumexp(logs, axis=0) - np.log(20)
    np.testing.assert_allclose(prediction.log_prob(Y), expected, 1e-5)


def test_joint_normal_density_of_masked_positions() -> None:
    model, y = network(masked=True), RNG.normal(size=(NUM, T, C)).astype("float32")
    laplace = fitted(model, TOKENS, y, likelihoods.Normal(0.7), subset_of_weights="last_layer")
    prediction = tfbdl.predict(laplace, TOKENS, verbose=0)
    mean, covariance = laplace.function_moments(TOKENS)
    expected = np.zeros(NUM)
    for n in range(1, NUM):
        kept = np.repeat(COUNTED[n], C)
        law = covariance[n][np.ix_(kept, kept)] + 0.49 * np.eye(kept.sum())
        of_kept = scipy.stats.multivariate_normal(mean[n].ravel()[kept], law)
        expected[n] = of_kept.logpdf(y[n].ravel()[kept]) if kept.any() else 0.0
    np.testing.assert_allclose(prediction.log_prob(y), expected, 1e-4)
