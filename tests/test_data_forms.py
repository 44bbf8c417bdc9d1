"""The same examples in every form that Keras takes give the same numbers; weights count as repeats.

Each form is compared with arrays, on the same batches. A weight that is an integer is compared with
so many equal examples, which is what it means, in everything that sums over examples.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from keras.src.trainers.data_adapters.data_adapter_utils import class_weight_to_sample_weights

import tfbdl
from tfbdl import inference, likelihoods
from tfbdl.example_weights import ClassWeights
from tfbdl.sources import Source

N, BATCH = 12, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)).astype("float32")
Y = RNG.normal(size=(N, 1)).astype("float32")
LABELS = np.arange(N) % 3
WEIGHTS = np.array([1, 2, 0, 1, 3, 1, 1, 0, 2, 1, 1, 2], "float32")
REPEATS = np.repeat(np.arange(N), WEIGHTS.astype(int))


class Batches(keras.utils.PyDataset):
    """Batches of arrays that lie side by side."""

    def __init__(self, *arrays: Any, length: int | None = N // BATCH, **workers: Any) -> None:
        super().__init__(**workers)
        self.arrays, self.length = arrays, length

    @property
    def num_batches(self) -> int | None:
        return self.length

    def __getitem__(self, index: int) -> Any:
        rows = np.arange(index * BATCH, (index + 1) * BATCH) % N
        return tuple(keras.tree.map_structure(lambda a: np.asarray(a)[rows], self.arrays))


def batches(*arrays: Any) -> Any:
    """A generator of batches."""
    yield from (Batches(*arrays)[i] for i in range(N // BATCH))


def forever(*arrays: Any) -> Any:
    """A generator without an end."""
    while True:
        yield from batches(*arrays)


def data_set(*arrays: Any) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(arrays).batch(BATCH)


FORMS = {
    "tf.data": lambda *a: {"x": data_set(*a)},
    "tf.data, endless": lambda *a: {"x": data_set(*a).repeat(), "steps": N // BATCH},
    "PyDataset": lambda *a: {"x": Batches(*a)},
    "PyDataset, workers": lambda *a: {"x": Batches(*a, workers=2, max_queue_size=2)},
    "PyDataset, endless": lambda *a: {"x": Batches(*a, length=None), "steps": N // BATCH},
    "generator": lambda *a: {"x": batches(*a)},
    "generator, endless": lambda *a: {"x": forever(*a), "steps": N // BATCH},
}


def network(outputs: int = 1, loss: Any = None) -> Any:
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(4, "tanh"), keras.layers.Dense(outputs, name="last")]
    model = keras.Sequential([keras.Input((3,)), *layers])
    model.compile(keras.optimizers.SGD(0.1), loss or likelihoods.Normal(0.5))
    return model


def laplace(data: Any, structure: str = "kron", curvature: str = "ggn", **settings: Any) -> Any:
    subset = "all" if structure != "lowrank" else "last_layer"
    settings = {"subset_of_weights": subset, "jit_compile": False, "dtype": "float64", **settings}
    posterior = inference.Laplace(
        network(3, likelihoods.Categorical()),
        hessian_structure=structure,
        curvature=curvature,
        **settings,
    )
    return posterior.fit(**data)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_holds_the_same(form: str) -> None:
    got = Source(**FORMS[form](X, LABELS, WEIGHTS)).whole()
    for values, expected in zip(got, (X, LABELS, WEIGHTS), strict=True):
        np.testing.assert_array_equal(values, expected)
    weights = np.array([2.0, 0.5, 1.0])[LABELS]
    for data in (FORMS[form](X, LABELS), {"x": X, "y": LABELS}):
        by_class = Source(**data, class_weight={0: 2.0, 1: 0.5}).whole()
        np.testing.assert_array_equal(by_class.weights, weights)


@pytest.mark.parametrize("form", ["PyDataset, workers", "generator, endless"])
def test_laplace_of_other_forms(form: str) -> None:
    expected = laplace({"x": X, "y": LABELS, "sample_weight": WEIGHTS}, "diag")
    got = laplace(FORMS[form](X, LABELS, WEIGHTS), "diag")
    np.testing.assert_allclose(got.log_marginal_likelihood(), expected.log_marginal_likelihood())
    means = [
        tfbdl.predict(expected, **data, seed=0, verbose=0).mean
        for data in (FORMS[form](X), {"x": X})
    ]
    np.testing.assert_allclose(*means, rtol=1e-5)


@pytest.mark.parametrize(
    ("structure", "curvature", "subset"),
    [
        ("full", "ggn", "all"),
        ("kron", "ggn", "all"),
        ("diag", "ef", "all"),
        ("lowrank", "ggn", "last_layer"),
        ("full", "hessian", "all"),
        ("full", "ggn", "last_layer"),
        ("kron", "ggn", "last_layer"),
        ("diag", "ggn", "last_layer"),
    ],
)
def test_weights_of_laplace_count_as_repeats(structure: str, curvature: str, subset: str) -> None:
    """The exact Hessian has a prior that makes it positive definite."""
    settings: Any = {"subset_of_weights": subset}
    settings |= {"prior_precision": 100.0} if curvature == "hessian" else {}
    weighted = laplace(
        {"x": X, "y": LABELS, "sample_weight": WEIGHTS}, structure, curvature, **settings
    )
    repeated = laplace({"x": X[REPEATS], "y": LABELS[REPEATS]}, structure, curvature, **settings)
    evidence = [float(p.log_marginal_likelihood()) for p in (weighted, repeated)]
    np.testing.assert_allclose(*evidence, rtol=1e-9)
    covariances = [p.function_moments(X)[1] for p in (weighted, repeated)]
    np.testing.assert_allclose(*covariances, rtol=1e-6, atol=1e-9)


def test_weights_are_powers_of_the_likelihood() -> None:
    """H of a linear model is X^T diag(w) X / sigma^2, with weights of any size."""
    w = RNG.uniform(0.1, 3.0, N)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, use_bias=False)])
    model.compile("sgd", likelihoods.Normal(0.5))
    posterior = inference.Laplace(model, hessian_structure="full", dtype="float64")
    posterior.fit(X, Y, sample_weight=w)
    x = X.astype(np.float64)
    precision = (x.T * w) @ x / 0.25 + np.eye(3)
    expected = np.einsum("ni,ij,nj->n", x, np.linalg.inv(precision), x)
    got = posterior.function_moments(X)[1][:, 0, 0]
    np.testing.assert_allclose(got, expected, 1e-9)
    assert f"{w.sum():,.10g} examples" in str(posterior.summary())


@pytest.mark.parametrize("noise", [0.5, None])
def test_neural_linear(noise: float | None) -> None:
    def fitted(**data: Any) -> Any:
        return inference.NeuralLinear(network(), sigma_noise=noise, dtype="float64").fit(**data)

    weighted = fitted(x=X, y=Y, sample_weight=WEIGHTS)
    repeated = fitted(x=X[REPEATS], y=Y[REPEATS])
    updated = fitted(x=X[:6], y=Y[:6], sample_weight=WEIGHTS[:6])
    updated.update(X[6:], Y[6:], sample_weight=WEIGHTS[6:])
    others = [fitted(**FORMS[form](X, Y, WEIGHTS)) for form in ("tf.data", "generator")]
    for other in (weighted, updated, *others):
        np.testing.assert_allclose(
            float(other.log_marginal_likelihood()), float(repeated.log_marginal_likelihood())
        )
        predictions = [tfbdl.predict(p, X, verbose=0) for p in (other, repeated)]
        np.testing.assert_allclose(*(p.stddev for p in predictions), rtol=1e-5)


@pytest.mark.parametrize("batch_size", [None, 5])
def test_log_posterior(batch_size: int | None) -> None:
    def density(**data: Any) -> Any:
        return inference.LogPosterior(
            network(), 1.0, **data, batch_size=batch_size, dtype="float64"
        )

    def values(target: Any) -> Any:
        theta = tf.constant(RNG_THETA, tf.float64)
        with tf.GradientTape() as tape:
            tape.watch(theta)
            value = target(theta)
        return [float(value), *tape.gradient(value, theta).numpy()]

    RNG_THETA = np.random.default_rng(1).normal(size=density(x=X, y=Y).size)
    expected = values(density(x=X[REPEATS], y=Y[REPEATS]))
    np.testing.assert_allclose(values(density(x=X, y=Y, sample_weight=WEIGHTS)), expected)
    for form in ("tf.data", "PyDataset, workers", "generator, endless"):
        np.testing.assert_allclose(values(density(**FORMS[form](X, Y, WEIGHTS))), expected)


def test_map() -> None:
    """The search sees the same density, of whose forms the test above tells."""
    adam = keras.optimizers.Adam(0.1)
    search = inference.MAP(network(), 1.0, optimizer=adam, max_iterations=5, jit_compile=False)
    with pytest.warns(UserWarning, match="no mode after 5 iterations"):
        weighted = search.fit(X, Y, sample_weight=WEIGHTS).log_prob
    with pytest.warns(UserWarning, match="no mode after 5 iterations"):
        repeated = search.fit(X[REPEATS], Y[REPEATS]).log_prob
    np.testing.assert_allclose(weighted, repeated, 1e-9)


def test_mcmc() -> None:
    settings: Any = {"num_chains": 1, "num_warmup": 0, "num_samples": 3, "jit_compile": False}
    kernel = inference.mcmc.kernels.RandomWalk(step_size=0.1)
    chains = inference.MCMC(network(), 1.0, kernel=kernel, dtype="float64", **settings)
    weighted = chains.fit(X, Y, sample_weight=WEIGHTS, verbose=0).draws.log_prob
    repeated = chains.fit(X[REPEATS], Y[REPEATS], verbose=0).draws.log_prob
    np.testing.assert_allclose(weighted, repeated, 1e-9)


def bayesian() -> Any:
    keras.utils.set_random_seed(1)
    layers = [tfbdl.layers.BayesDense(4, "tanh", num_data=N), keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input((3,)), *layers])
    model.compile("sgd", likelihoods.Categorical())
    return model


def test_elbo() -> None:
    """The bound of all the data is N times the value: N counts examples, as Keras' loss does."""
    model = bayesian()
    given: Any = {"num_samples": 3, "seed": 0, "jit_compile": False}
    weighted = tfbdl.elbo(model, X, LABELS, sample_weight=WEIGHTS, **given)
    repeated = tfbdl.elbo(model, X[REPEATS], LABELS[REPEATS], **given)
    expected = len(REPEATS) * repeated.log_likelihood
    np.testing.assert_allclose(N * weighted.log_likelihood, expected, 1e-5)


@pytest.mark.parametrize("form", ["tf.data, endless", "generator"])
def test_predictions_of_other_forms(form: str) -> None:
    model, make = bayesian(), FORMS[form]
    given: Any = {"num_samples": 3, "seed": 0, "jit_compile": False}
    bounds = [
        tfbdl.elbo(model, **data, **given)
        for data in (make(X, LABELS, WEIGHTS), {"x": X, "y": LABELS, "sample_weight": WEIGHTS})
    ]
    np.testing.assert_allclose(*bounds, rtol=1e-5)
    densities = [
        tfbdl.log_predictive_density(model, **data, **given)
        for data in (make(X, LABELS, WEIGHTS), {"x": X, "y": LABELS})
    ]
    np.testing.assert_allclose(*densities, rtol=1e-5)
    means = [tfbdl.predict(model, **d, **given, verbose=0).mean for d in (make(X), {"x": X})]
    np.testing.assert_allclose(*means, rtol=1e-5)


@pytest.mark.parametrize("y", [LABELS, LABELS[:, None], np.eye(3)[LABELS], LABELS * 1.0])
def test_class_weights_are_those_of_keras(y: Any) -> None:
    chosen = {0: 0.5, 2: 3.0, 7: 9.0}
    expected = class_weight_to_sample_weights(y, chosen)
    np.testing.assert_array_equal(ClassWeights(chosen)(y), expected)
    np.testing.assert_array_equal(tf.function(ClassWeights(chosen))(y), expected)


FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": np.array(["u", "v", "w"])[LABELS]})


def named() -> Any:
    """A model that takes the columns of the frame, in another order, one of them of text."""
    keras.utils.set_random_seed(1)
    kinds = keras.Input((1,), dtype="string", name="kind")
    b, a = keras.Input((1,), name="b"), keras.Input((1,), name="a")
    looked_up = keras.layers.StringLookup(vocabulary=["u", "v", "w"], output_mode="one_hot")(kinds)
    hidden = keras.layers.Dense(4, "tanh")(keras.layers.concatenate([looked_up, a, b]))
    model = keras.Model({"kind": kinds, "b": b, "a": a}, keras.layers.Dense(1)(hidden))
    model.compile("sgd", likelihoods.Normal(0.5))
    return model


def test_frames() -> None:
    """One matrix, or a column for each named input, of text too; series for y and weights."""
    x, y = pd.DataFrame(X, columns=["a", "b", "c"]), pd.Series(Y[:, 0], index=range(100, 100 + N))
    weights = pd.Series(WEIGHTS, index=y.index)
    expected = inference.Laplace(network()).fit(X, Y, sample_weight=WEIGHTS)
    got = inference.Laplace(network()).fit(x, y, sample_weight=weights)
    np.testing.assert_allclose(
        float(got.log_marginal_likelihood()), float(expected.log_marginal_likelihood())
    )
    columns = {name: FRAME[name].to_numpy() for name in FRAME}
    model = named()
    posterior = inference.Laplace(model, jit_compile=False).fit(FRAME.assign(unused=1.0), y)
    by_columns = inference.Laplace(model, jit_compile=False).fit(columns, Y)
    by_series = inference.Laplace(model, jit_compile=False).fit(dict(FRAME), y)
    for other in (by_columns, by_series):
        np.testing.assert_allclose(
            float(posterior.log_marginal_likelihood()), float(other.log_marginal_likelihood())
        )
    for p in (posterior, posterior.ensemble(3), inference.NeuralLinear(model).fit(FRAME, y)):
        means = [tfbdl.predict(p, data, 3, seed=0, verbose=0).mean for data in (FRAME, columns)]
        np.testing.assert_array_equal(*means)


def test_a_generator_gives_its_first_batch_again() -> None:
    source = Source(batches(X, Y))
    np.testing.assert_array_equal(source.first().x, X[:BATCH])
    np.testing.assert_array_equal(source.whole().x, X)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"x": X, "y": Y, "sample_weight": WEIGHTS[:5]}, "sample_weight has shape (5,); give one"),
        ({"x": X, "y": Y, "sample_weight": -WEIGHTS}, "sample_weight is -1 in example 0; give"),
        ({"x": X, "y": Y, "sample_weight": WEIGHTS * np.nan}, "sample_weight is not finite"),
        ({"x": X, "y": Y, "sample_weight": WEIGHTS * 0}, "sample_weight is 0 for all examples"),
        ({"x": X, "y": Y, "sample_weight": [WEIGHTS, WEIGHTS]}, "sample_weight has several"),
        ({"x": X, "y": Y, "class_weight": [1.0]}, "class_weight=[1.0] must be a dictionary"),
        ({"x": X, "y": Y, "class_weight": {0: -1.0}}, "class_weight has 0: -1.0; give"),
        ({"x": X, "y": Y, "class_weight": {"a": 1.0}}, "class_weight has 'a': 1.0; give"),
        (
            {"x": X, "y": np.zeros((N, 2, 2)), "class_weight": {0: 1.0}},
            "class_weight is for y of labels",
        ),
        (
            {"x": X, "y": Y, "class_weight": {0: 1.0}, "sample_weight": WEIGHTS},
            "class_weight and sample_weight are both given",
        ),
        ({"x": X, "y": Y, "steps": 2}, "steps=2 is for data sets and generators"),
        ({"x": batches(X, Y), "y": Y}, "y is given, but x is a generator"),
        ({"x": Batches(X), "sample_weight": WEIGHTS}, "sample_weight is given, but x is a keras."),
        ({"x": data_set(X, Y).repeat()}, "x is a tf.data.Dataset without an end; give steps"),
        ({"x": Batches(X, Y, length=None)}, "x is a keras.utils.PyDataset without an end"),
        ({"x": batches(X, Y), "steps": 4}, "x gave 3 batches, not steps=4; give fewer"),
        ({"x": batches(X, Y, -WEIGHTS)}, "sample_weight of batch 0 is -1 in example 0"),
        ({"x": batches(X, Y, Y, Y)}, "x gives batches of 4 parts; let it give x, (x, y) or"),
        ({"x": batches(X)}, "y=None: give targets"),
        (
            {"x": batches(X, LABELS, WEIGHTS), "class_weight": {0: 1.0}},
            "class_weight is given beside weights in x",
        ),
        ({"x": iter([])}, "x has no batches"),
    ],
)
def test_malformed_data(data: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        Source(**data).whole()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_more_refusals() -> None:
    source = Source(batches(X, Y))
    source.whole()
    with pytest.raises(ValueError, match="x is a generator, whose batches are gone after one pass"):
        source.whole()
    with pytest.raises(ValueError, match="x has no column 'kind', which the model has an input"):
        Source(FRAME[["a", "b"]], model=named())
    with pytest.raises(ValueError, match="x is a generator, which gives its batches once"):
        inference.EmpiricalBayes(inference.Laplace(network()), batches(X, Y))
    with pytest.raises(ValueError, match=r"sample_weight is for a keras.Model; a log density"):
        inference.MAP(lambda w: -(w**2), initial=np.ones(1)).fit(sample_weight=WEIGHTS)
