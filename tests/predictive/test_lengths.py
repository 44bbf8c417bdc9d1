"""Batches of sequences of several lengths: what can be asked of them, and true refusals."""

from typing import Any

import keras
import numpy as np
import pytest
import scipy.special

import tfbdl
from tfbdl import inference
from tfbdl.layers import MCDropout
from tfbdl.likelihoods import Categorical

S = 5
RNG = np.random.default_rng(0)
LENGTHS = (4, 6, 5)
X = [RNG.integers(1, 20, (8, length)) for length in LENGTHS]
Y = [RNG.integers(0, 3, x.shape) for x in X]


class Batches(keras.utils.PyDataset):
    """One batch of each length, with a label for each position or, where `pooled`, for each row."""

    def __init__(self, pooled: bool = False) -> None:
        super().__init__()
        self.pooled = pooled

    def __len__(self) -> int:
        return len(LENGTHS)

    def __getitem__(self, i: int) -> Any:
        return X[i], Y[i][:, 0] if self.pooled else Y[i]


def tagger(*, random: bool = False, pooled: bool = False) -> keras.Model:
    """A network in which positions do not meet, unless they are pooled."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((None,), dtype="int32")
    h = keras.layers.Embedding(20, 6)(inputs)
    h = keras.layers.GlobalAveragePooling1D()(h) if pooled else h
    h = MCDropout(0.3, seed=1)(h) if random else h
    model = keras.Model(inputs, keras.layers.Dense(3)(h))
    model.compile("adam", Categorical())
    return model


@pytest.mark.parametrize("pooled", [False, True])
def test_bound_and_density(pooled: bool) -> None:
    """Each batch alone has the same functions."""
    model, data = tagger(random=True, pooled=pooled), Batches(pooled)
    got = tfbdl.log_predictive_density(model, data, num_samples=S, seed=1)
    expected = []
    for i in range(len(data)):
        x, y = data[i]
        kept = tfbdl.predict(model, x, S, seed=1, return_samples=True, verbose=0)
        log_p = scipy.special.log_softmax(np.asarray(kept.outputs, np.float64), axis=-1)
        logs = np.take_along_axis(log_p, np.broadcast_to(y, (S, *y.shape))[..., None], -1)[..., 0]
        expected.append(logs if pooled else logs.sum(axis=-1))
    logs = np.concatenate(expected, axis=1)
    np.testing.assert_allclose(got, scipy.special.logsumexp(logs, axis=0) - np.log(S), 1e-5)
    bound = tfbdl.elbo(model, data, num_samples=S, seed=1)
    np.testing.assert_allclose(bound.log_likelihood, logs.mean(), 1e-5)


def test_laplace_of_what_is_pooled() -> None:
    """The posterior precision, from the features of each batch."""
    model, data = tagger(pooled=True), Batches(pooled=True)
    laplace = inference.Laplace(model, hessian_structure="full").fit(data)
    body = keras.Model(model.input, model.layers[-2].output)
    h: Any = np.eye(21)
    for x in X:
        phi = np.concatenate([body(x), np.ones((len(x), 1))], axis=1).astype(np.float64)
        p = scipy.special.softmax(np.asarray(model(x), np.float64), axis=-1)
        for a, q in zip(phi, p, strict=True):
            h += np.kron(np.outer(a, a), np.diag(q) - np.outer(q, q))
    evidence = laplace.log_marginal_likelihood()
    theta = np.concatenate([w.ravel() for w in model.layers[-1].get_weights()])
    log_p = [scipy.special.log_softmax(np.asarray(model(x), np.float64), axis=-1) for x in X]
    logs = sum(np.take_along_axis(p, y[:, :1], 1).sum() for p, y in zip(log_p, Y, strict=True))
    expected = logs - 0.5 * theta @ theta - 0.5 * np.linalg.slogdet(h)[1]
    np.testing.assert_allclose(evidence, expected, 1e-5)


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("structure", ["full", "kron", "diag"])
def test_last_layer_laplace_of_other_lengths(structure: str, batch: int) -> None:
    """Positions do not meet, so that each has the law that it has in a longer sequence."""
    laplace = inference.Laplace(tagger(), hessian_structure=structure).fit(X[batch], Y[batch])
    options = {"seed": 1, "verbose": 0}
    whole = tfbdl.predict(laplace, X[1], 4000, **options)
    short = tfbdl.predict(laplace, X[1][:, :4], 4000, **options)
    np.testing.assert_allclose(short.mean, whole.mean[:, :4], 1e-6)
    error = 6 * whole.epistemic_variance[:, :4] * np.sqrt(2 / 4000)
    assert (np.abs(short.epistemic_variance - whole.epistemic_variance[:, :4]) < error).all()


@pytest.mark.parametrize("pred_type", ["glm", "nn"])
def test_answers_of_several_lengths_are_refused(pred_type: str) -> None:
    laplace = inference.Laplace(tagger(), pred_type=pred_type).fit(X[1], Y[1])
    for model in (tagger(random=True), laplace):
        with pytest.raises(ValueError, match=r"^x has batches with outputs of shapes \(N, 4, 3\) "):
            tfbdl.predict(model, Batches(), S, verbose=0)


def test_neural_linear() -> None:
    """Positions of all lengths are rows of one regression; answers are of one length."""

    class Numbers(Batches):
        def __getitem__(self, i: int) -> Any:
            x, y = super().__getitem__(i)
            return x, np.eye(3, dtype="float32")[y]

    model, data = tagger(), Numbers()
    linear = inference.NeuralLinear(model, sigma_noise=0.5).fit(data)
    embedding = model.layers[1].get_weights()[0]
    rows = [embedding[x].reshape(-1, 6) for x in X]
    targets = [data[i][1].reshape(-1, 3) for i in range(len(X))]
    of_rows = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
    known = inference.NeuralLinear(of_rows, sigma_noise=0.5)
    known.fit(np.concatenate(rows), np.concatenate(targets))
    got, expected = (float(m.log_marginal_likelihood()) for m in (linear, known))
    np.testing.assert_allclose(got, expected, 1e-5)
    assert tfbdl.predict(linear, X[1], verbose=0).mean.shape == (8, 6, 3)
    with pytest.raises(ValueError, match=r"^x has batches with outputs of shapes \(N, 4, 3\) and"):
        tfbdl.predict(linear, data, verbose=0)


def test_what_takes_all_examples_at_once_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^x has batches with arrays of shapes \(N, 4\) and "):
        inference.MCMC(tagger(), 1.0, num_warmup=2, num_samples=2).fit(Batches())


@pytest.mark.parametrize("structure", ["full", "kron", "diag"])
@pytest.mark.parametrize("subset", ["last_layer", "all"])
def test_laplace_refuses_outputs_of_several_lengths(structure: str, subset: str) -> None:
    message = r"^x has outputs of shape \(6, 3\), 18 numbers, where those of fit have 12; Laplace"
    laplace = inference.Laplace(tagger(), subset_of_weights=subset, hessian_structure=structure)
    with pytest.raises(ValueError, match=message):
        laplace.fit(Batches())
    laplace.fit(X[0], Y[0])
    with pytest.raises(ValueError, match=message):
        tfbdl.log_predictive_density(laplace, X[1], Y[1], S)
    if subset == "all":
        with pytest.raises(ValueError, match=message):
            tfbdl.predict(laplace, X[1], S, verbose=0)
