"""Networks with outputs at positions: each is a row of one regression."""

import dataclasses
from typing import Any
from unittest import mock

import keras
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

import tfbdl
from tfbdl import memory
from tfbdl.inference import Laplace, NeuralLinear
from tfbdl.inference.neural_linear import features as features_module
from tfbdl.inference.neural_linear import moments
from tfbdl.likelihoods import Normal
from tfbdl.predictive import kept

RNG = np.random.default_rng(0)
N, T, F = 5, 6, 2
X, NEW = (RNG.normal(size=(n, 2, 3, 3)) for n in (N, 4))
Y = RNG.normal(size=(N, 2, 3, F)) + 0.4
NOISES: Any = (0.6, None)


def segmenting(width: int = 4, size: Any = (2, 3)) -> keras.Model:
    keras.utils.set_random_seed(3)
    hidden = keras.layers.Conv2D(width, 2, padding="same", activation="tanh", dtype="float64")
    last = keras.layers.Conv2D(F, 1, bias_initializer="normal", dtype="float64", name="last")
    return keras.Sequential([keras.Input((*size, 3), dtype="float64"), hidden, last])


def linear() -> keras.Model:
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(F)])


def features(model: keras.Model, x: Any) -> Any:
    """The features of all pixels, one row each."""
    hidden = np.asarray(model.layers[0](x))
    return hidden.reshape(-1, hidden.shape[-1])


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


class Pairs(keras.layers.Layer):
    """Two positions of each word, whose mask has no axis for them."""

    supports_masking = True

    def call(self, h: Any) -> Any:
        return keras.ops.reshape(h, (-1, 4, 2, 4))


class SumOfWords(keras.layers.Layer):
    """A vector for each example, that is handed the mask of words."""

    supports_masking = True

    def call(self, h: Any) -> Any:
        return keras.ops.sum(h, axis=1)


def of_words(size: int, *inner: keras.layers.Layer) -> keras.Model:
    inputs = keras.Input((4,), dtype="int32")
    h = keras.layers.Embedding(9, size, mask_zero=True, name="words")(inputs)
    for layer in inner:
        h = layer(h)
    return keras.Model(inputs, keras.layers.Dense(F)(h))


WORDS = np.where(np.arange(4) < RNG.integers(1, 5, (N, 1)), RNG.integers(1, 9, (N, 4)), 0)


@pytest.mark.parametrize("positions", [(), (2,)])
@pytest.mark.parametrize("sigma_noise", NOISES)
def test_what_a_mask_leaves_out(sigma_noise: Any, positions: Any) -> None:
    """Counts neither in the posterior nor in what is said of predictions."""
    y = RNG.normal(size=(N, 4, *positions, F))
    model = of_words(8, Pairs()) if positions else of_words(4)
    own = NeuralLinear(model, sigma_noise=sigma_noise).fit(WORDS, y)
    table = np.asarray(model.get_layer("words").embeddings)
    rows = table[WORDS[WORDS > 0]].reshape(-1, 4)
    of_rows = NeuralLinear(linear(), sigma_noise=sigma_noise)
    expected = of_rows.fit(rows, y[WORDS > 0].reshape(-1, F))
    np.testing.assert_allclose(
        own.log_marginal_likelihood(), expected.log_marginal_likelihood(), 1e-6
    )
    got = tfbdl.predict(own, WORDS, verbose=0)
    counts = np.broadcast_to((WORDS > 0).reshape(N, 4, *[1] * len(positions)), y.shape[:-1])
    np.testing.assert_array_equal(got.mask, counts)
    mean = tfbdl.predict(expected, rows, verbose=0).mean
    np.testing.assert_allclose(got.mean[counts], mean, 1e-4, 1e-5)
    before = float(own.log_marginal_likelihood())
    one = WORDS[:1]
    grown = float(own.update(one, y[:1]).log_marginal_likelihood()) - before
    np.testing.assert_allclose(got.log_prob(y)[:1], grown, 1e-4)


@pytest.mark.parametrize("sigma_noise", [0.3, None])
def test_a_mask_of_examples(sigma_noise: Any) -> None:
    """Vectors of which some examples are masked: those have no density, others their own."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(12, 3)).astype("float32"), rng.normal(size=(12, 2))
    x[:3] = 0.0
    layers = [keras.layers.Masking(), keras.layers.Dense(4, "tanh"), keras.layers.Dense(2)]
    model = keras.Sequential([keras.Input((3,)), *layers])
    posterior = NeuralLinear(model, sigma_noise=sigma_noise)
    prediction = tfbdl.predict(posterior.fit(x, y), x, verbose=0)
    np.testing.assert_array_equal(prediction.mask, np.arange(12) >= 3)
    expected = prediction.marginal.log_prob(y).numpy().sum(axis=1)
    assert (expected != 0).all()
    np.testing.assert_allclose(prediction.log_prob(y)[3:], expected[3:], rtol=1e-12)
    np.testing.assert_array_equal(prediction.log_prob(y)[:3], 0.0)
    np.testing.assert_allclose(prediction[2:5].log_prob(y[2:5])[1:], expected[3:5], rtol=1e-12)


def test_masks_of_vectors_are_refused() -> None:
    model = of_words(4, SumOfWords())
    message = r"^outputs of shape \(5, 2\) have a Keras mask of shape \(5, 4\), not that of their"
    with pytest.raises(ValueError, match=message):
        NeuralLinear(model).fit(WORDS, RNG.normal(size=(N, F)))


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


def brute_force_densities(width: int, sigma_noise: Any, y: Any, mask: Any) -> Any:
    """Log p(y | x, D) of the positions of each example that count, by dense matrices."""
    model = segmenting(width)
    phi, new = (
        np.column_stack([f, np.ones(len(f))]) for f in (features(model, v) for v in (X, NEW))
    )
    targets, delta = Y.reshape(-1, F), 1.7 * (1.0 if sigma_noise is None else sigma_noise**2)
    inverse = np.linalg.inv(phi.T @ phi + delta * np.eye(width + 1))
    w = inverse @ phi.T @ targets
    squares = np.sum(targets**2, axis=0) - np.sum(w * (phi.T @ targets), axis=0)
    a, b = 1.0 + 0.5 * len(phi), 0.1 + 0.5 * squares
    logs = np.zeros(len(NEW))
    for n, f in np.ndindex(len(NEW), F):
        counts = mask[n].ravel()
        at = new.reshape(len(NEW), T, -1)[n][counts]
        shape, location = np.eye(len(at)) + at @ inverse @ at.T, at @ w[:, f]
        if sigma_noise is None:
            law = scipy.stats.multivariate_t(location, b[f] / a * shape, df=2 * a)
        else:
            law = scipy.stats.multivariate_normal(location, sigma_noise**2 * shape)
        logs[n] += law.logpdf(y[n].reshape(T, F)[counts, f])
    return logs


@pytest.mark.parametrize("width", [3, 9])
@pytest.mark.parametrize("sigma_noise", NOISES)
def test_joint_density_of_few_and_many_features(sigma_noise: Any, width: int) -> None:
    """Fewer than positions, and more; of all positions, and of some."""
    own = NeuralLinear(
        segmenting(width), prior_precision=1.7, sigma_noise=sigma_noise, dtype="float64"
    )
    prediction = tfbdl.predict(own.fit(X, Y), NEW, verbose=0)
    assert prediction.joint.root.shape == (4, T, min(T, width + 1))
    y = RNG.normal(size=(4, 2, 3, F))
    every = np.ones((4, 2, 3), bool)
    some = RNG.random((4, 2, 3)) < 0.6
    some[:, 0, 0] = True
    for mask, given in ((every, None), (some, some)):
        expected = brute_force_densities(width, sigma_noise, y, mask)
        got = dataclasses.replace(prediction, mask=given).log_prob(
            np.where(mask[..., None], y, 9.0)
        )
        np.testing.assert_allclose(got, expected, 1e-9)
    none = dataclasses.replace(prediction, mask=~every)
    np.testing.assert_array_equal(none.log_prob(y), 0.0)


def test_joint_density_of_one_large_image() -> None:
    """Its covariances would be 200 MB, and their root is 0.2 MB (Woodbury's identity)."""
    size = (70, 70)
    model = segmenting(4, size)
    own = NeuralLinear(model, sigma_noise=0.6, dtype="float64")
    x, y = RNG.normal(size=(1, *size, 3)), RNG.normal(size=(1, *size, F))
    own.fit(x, y)
    new, y_new = RNG.normal(size=(1, *size, 3)), RNG.normal(size=(1, *size, F))
    prediction = tfbdl.predict(own, new, verbose=0)
    phi, at = (np.column_stack([features(model, v), np.ones(4900)]) for v in (x, new))
    precision = phi.T @ phi + 0.36 * np.eye(5)
    errors = y_new.reshape(-1, F) - at @ np.linalg.solve(precision, phi.T @ y.reshape(-1, F))
    after = precision + at.T @ at
    squares = np.sum(errors**2) - np.sum((at.T @ errors) * np.linalg.solve(after, at.T @ errors))
    log_det = np.linalg.slogdet(after)[1] - np.linalg.slogdet(precision)[1]
    expected = -0.5 * (F * log_det + squares / 0.36 + 9800 * np.log(2 * np.pi * 0.36))
    np.testing.assert_allclose(prediction.log_prob(y_new), [expected], 1e-10)
    assert len(repr(prediction.joint)) < 100


def test_joint_densities_of_too_many_positions_are_not_kept() -> None:
    """But that of one example always is, and no root is made after the limit."""
    _, own, _ = fitted(0.6)
    y = RNG.normal(size=(4, 2, 3, F))
    whole = tfbdl.predict(own, NEW, verbose=0)
    with (
        mock.patch.object(kept, "KEPT", 100),
        mock.patch.object(moments, "_root", side_effect=moments._root) as root,
    ):
        prediction = tfbdl.predict(own, NEW, verbose=0)
        assert not root.called
        tfbdl.predict(own, np.concatenate([NEW] * 5), batch_size=1, verbose=0)
        assert root.call_count == 3  # of 30 numbers each
        assert tfbdl.predict(own, NEW[:3], verbose=0).joint is not None
    assert prediction.joint is None
    assert prediction[:2].joint is None
    np.testing.assert_allclose(prediction.entropy, whole.entropy)
    message = (
        "^log_prob needs the joint distribution of 12 outputs, which is not kept for so many; "
        "predict fewer at once, or use marginal$"
    )
    with pytest.raises(ValueError, match=message):
        prediction.log_prob(np.zeros((4, 2, 3, F)))
    with mock.patch.object(kept, "KEPT", 1):
        alone = [tfbdl.predict(own, x_n[np.newaxis], verbose=0) for x_n in NEW]
    logs = [one.log_prob(y_n[np.newaxis])[0] for one, y_n in zip(alone, y, strict=True)]
    np.testing.assert_allclose(logs, whole.log_prob(y), 1e-9)


def test_features_of_all_positions_leave_room() -> None:
    """As many examples at once as have so few features; what is found is the same."""
    _, own, _ = fitted(0.6)
    expected = own.function_moments(NEW)
    y, before = tfbdl.predict(own, NEW, verbose=0).mean, own.log_marginal_likelihood()
    sizes = []
    with mock.patch.object(features_module, "_NUMBERS", 2 * T * 5):
        for batch in own._features.of_batches(tfbdl.sources.Source.of(X, own.model), None):
            sizes.append(len(batch.phi))
        sets = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)
        again = NeuralLinear(own.model, prior_precision=1.7, sigma_noise=0.6, dtype="float64")
        again.fit(sets)
        np.testing.assert_allclose(again.log_marginal_likelihood(), before, 1e-12)
        for got, wanted in zip(own.function_moments(NEW), expected, strict=True):
            np.testing.assert_allclose(got, wanted, 1e-12, 1e-14)
        np.testing.assert_allclose(tfbdl.predict(own, NEW, verbose=0).mean, y, 1e-6)
    assert sizes == [2, 2, 1]


def test_moments_of_several_lengths_or_too_many_positions_are_refused() -> None:
    inputs = keras.Input((None, 3))
    model = keras.Model(inputs, keras.layers.Dense(F)(inputs))
    own = NeuralLinear(model, sigma_noise=0.6)
    own.fit(RNG.normal(size=(N, 4, 3)), RNG.normal(size=(N, 4, F)))
    lengths = (RNG.normal(size=(2, length, 3)) for length in (4, 5))
    message = r"^x has batches with outputs of shapes \(N, 4, 2\) and \(N, 5, 2\); ask for each"
    with pytest.raises(ValueError, match=message):
        own.function_moments(lengths)
    x = RNG.normal(size=(3, 500, 3))
    message = (
        "^the covariance of 1,000 outputs at 3 examples needs 48 MB of memory, and 10 MB is free; "
    )
    with mock.patch.object(memory, "_free", return_value=10**7):
        with pytest.raises(ValueError, match=message) as caught:
            own.function_moments(x)
        assert "\n" not in str(caught.value)
        own.function_moments(x[:1, :300])


def test_summary_counts_rows() -> None:
    _, own, _ = fitted(0.6)
    assert f"nats of {N * T} rows; prior precision 1.7; noise 0.6" in str(own.summary())


@pytest.mark.parametrize(
    "arguments", [{"kernel_size": 2}, {"strides": 2}, {"groups": 2}, {"activation": "relu"}]
)
def test_other_convolutions_are_refused(arguments: Any) -> None:
    conv = keras.layers.Conv2D(**{"filters": 2, "kernel_size": 1, "name": "last", **arguments})
    model = keras.Sequential([keras.Input((4, 4, 2)), conv])
    message = r"^model=.* ends in the layer 'last' \(Conv2D\); let the last one be a Dense, or a "
    with pytest.raises(ValueError, match=message):
        NeuralLinear(model)
