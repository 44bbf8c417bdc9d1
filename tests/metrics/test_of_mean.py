"""Metrics of the mean that a likelihood predicts, and the refusal of those that are of no mean."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfbdl
from tfbdl import likelihoods, metrics
from tfbdl.inference import EmpiricalBayes, Laplace, WeightSnapshots
from tfbdl.layers import LearnedScale, MCDropout
from tfbdl.metrics import OfMean

N = 37
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2)).astype("float32")
Y = RNG.normal(size=(N, 1)).astype("float32")
COUNTS = RNG.poisson(2.0, (N, 1)).astype("float32")
LABELS = RNG.integers(0, 3, N)
BITS = (X[:, :1] + 0.5 * Y > 0.3).astype("float32")
WEIGHTS = RNG.uniform(0.0, 2.0, N).astype("float32")


def rmse(y: Any, mean: Any, weights: Any) -> Any:
    return np.sqrt(np.average((y - mean)[:, 0] ** 2, weights=weights))


def accuracy(y: Any, mean: Any, weights: Any) -> Any:
    return np.average(mean.argmax(-1) == y, weights=weights)


def binary_accuracy(y: Any, mean: Any, weights: Any) -> Any:
    return np.average((mean[:, 0] > 0.5) == y[:, 0], weights=weights)


def brier(y: Any, mean: Any, weights: Any) -> Any:
    return np.average(np.square(mean - np.eye(3)[y]).sum(-1), weights=weights)


# name: likelihood, outputs, y, metric, its value from y, the mean and weights, the mean of outputs
CASES = {
    "normal": (likelihoods.Normal(0.3), 1, Y, keras.metrics.RootMeanSquaredError, rmse),
    "normal predicted": (
        likelihoods.Normal("predicted"),
        2,
        Y,
        keras.metrics.RootMeanSquaredError,
        rmse,
    ),
    "student predicted": (
        likelihoods.StudentT(scale="predicted"),
        2,
        Y,
        keras.metrics.RootMeanSquaredError,
        rmse,
    ),
    "counts": (likelihoods.Poisson(), 1, COUNTS, keras.metrics.RootMeanSquaredError, rmse),
    "classes": (
        likelihoods.Categorical(),
        3,
        LABELS,
        keras.metrics.SparseCategoricalAccuracy,
        accuracy,
    ),
    "probabilities of classes": (likelihoods.Categorical(), 3, LABELS, metrics.BrierScore, brier),
    "bits": (likelihoods.Bernoulli(), 1, BITS, keras.metrics.BinaryAccuracy, binary_accuracy),
    "grey": (likelihoods.ContinuousBernoulli(), 1, BITS, keras.metrics.RootMeanSquaredError, rmse),
}
MEANS = {
    "normal predicted": lambda f: f[:, :1],
    "student predicted": lambda f: f[:, :1],
    "counts": np.exp,
    "classes": lambda f: np.exp(f) / np.exp(f).sum(-1, keepdims=True),
    "probabilities of classes": lambda f: np.exp(f) / np.exp(f).sum(-1, keepdims=True),
    "bits": lambda f: 1 / (1 + np.exp(-f)),
    "grey": lambda f: 1 / (1 - np.exp(-f)) - 1 / f,
}


def network(units: int, loss: Any, rate: float = 0.0, **compiled: Any) -> Any:
    keras.utils.set_random_seed(3)
    layers = [keras.Input((2,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(units)]
    model = keras.Sequential(layers)
    model.compile(keras.optimizers.SGD(rate), loss, **compiled)
    return model


def expected(name: str, model: Any, weights: Any = None, num: Any = N) -> Any:
    _, _, y, _, value = CASES[name]
    outputs = model.predict(X, verbose=0).astype(np.float64)
    mean = MEANS.get(name, lambda f: f)(outputs)
    return value(y[:num], mean[:num], None if weights is None else weights[:num])


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_in_fit_and_evaluate(name: str, jit_compile: Any) -> None:
    likelihood, units, y, metric, _ = CASES[name]
    model = network(
        units,
        likelihood,
        metrics=[OfMean(metric(name="plain"), likelihood)],
        weighted_metrics=[OfMean(metric(), likelihood, name="weighted")],
        jit_compile=jit_compile,
    )
    plain, weighted = expected(name, model), expected(name, model, WEIGHTS)
    logs = model.evaluate(X, y, 10, sample_weight=WEIGHTS, return_dict=True, verbose=0)
    assert logs["plain"] == pytest.approx(plain, rel=1e-5)
    assert logs["weighted"] == pytest.approx(weighted, rel=1e-5)
    history = model.fit(
        *(X, y, 10),
        epochs=2,
        sample_weight=WEIGHTS,
        validation_data=(X[:20], y[:20]),
        verbose=0,
    ).history
    assert history["plain"] == pytest.approx([plain] * 2, rel=1e-5)
    assert history["weighted"] == pytest.approx([weighted] * 2, rel=1e-5)
    assert history["val_plain"] == pytest.approx([expected(name, model, num=20)] * 2, rel=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_in_the_loop_of_tfbdl(name: str) -> None:
    likelihood, units, y, metric, _ = CASES[name]
    model = network(units, likelihood, metrics=[OfMean(metric(), likelihood)])
    history = tfbdl.train(model, X, y, epochs=2, batch_size=N, verbose=0)
    assert history[metric().name] == pytest.approx([expected(name, model)] * 2, rel=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_saved_with_the_model(name: str, tmp_path: Path) -> None:
    likelihood, units, y, metric, _ = CASES[name]
    model = network(units, likelihood, metrics=[OfMean(metric(), likelihood, name="mine")])
    before = model.evaluate(X, y, return_dict=True, verbose=0)
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras", safe_mode=True)
    after = loaded.evaluate(X, y, return_dict=True, verbose=0)
    assert set(after) == {"loss", "mine"}
    assert after == pytest.approx(before, rel=1e-6)


def test_a_mean_that_fits_exactly_has_no_error() -> None:
    """Keras' own metric says 2.56 of it, since the raw scale is far from y."""
    y = X @ np.array([[1.0], [-2.0]], "float32")
    dense = keras.layers.Dense(1, use_bias=False)
    model = keras.Sequential([keras.Input((2,)), dense, LearnedScale(0.1)])
    dense.set_weights([np.array([[1.0], [-2.0]])])
    likelihood = likelihoods.Normal("predicted")
    model.compile(
        "sgd", likelihood, metrics=[OfMean(keras.metrics.RootMeanSquaredError(), likelihood)]
    )
    for targets in (y, y[:, 0]):
        logs = model.evaluate(X, targets, return_dict=True, verbose=0)
        assert logs["root_mean_squared_error"] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("metric", [keras.metrics.R2Score, keras.metrics.MeanAbsoluteError])
def test_targets_without_an_axis(metric: Any) -> None:
    """R2Score itself does not take them."""
    likelihood = likelihoods.Normal("predicted")
    of_mean, itself = OfMean(metric(), likelihood), metric()
    outputs = np.hstack([2 * Y, Y])
    of_mean.update_state(Y[:, 0], outputs)
    itself.update_state(Y, 2 * Y)
    np.testing.assert_allclose(of_mean.result(), itself.result(), 1e-6)
    of_mean.reset_state()
    of_mean.update_state(Y, np.hstack([Y, Y]))
    itself.reset_state()
    itself.update_state(Y, Y)
    np.testing.assert_allclose(of_mean.result(), itself.result(), atol=1e-6)


def test_several_values_of_one_metric() -> None:
    likelihood = likelihoods.Categorical()
    model = network(3, likelihood, metrics=[OfMean(metrics.BrierDecomposition(3), likelihood)])
    columns = tfbdl.train(model, X, LABELS, epochs=1, batch_size=N, verbose=0)
    p = MEANS["classes"](model.predict(X, verbose=0).astype(np.float64))
    parts = metrics.brier_decomposition(LABELS, p)
    assert columns["brier_reliability"] == pytest.approx([parts.reliability], rel=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mse", likelihoods.Normal()), "^metric='mse' must be an object, such as keras.metrics"),
        ((keras.metrics.MeanSquaredError(), "mse"), "^likelihood='mse' is a loss that gives y no"),
        (
            (metrics.BrierScore(from_logits=True), likelihoods.Categorical()),
            r"^metric=BrierScore\(from_logits=True\) takes logits, .*; leave from_logits out$",
        ),
        (
            (keras.metrics.AUC(from_logits=True), likelihoods.Bernoulli()),
            r"^metric=AUC\(from_logits=True\) takes logits",
        ),
    ],
)
def test_arguments(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        OfMean(*arguments)
    assert "\n" not in str(caught.value)


def of_all(y: Any, outputs: Any) -> Any:
    return tf.reduce_mean(tf.abs(y - outputs))


class Own(keras.metrics.RootMeanSquaredError):
    """One that may know what it is given."""


PREDICTED = likelihoods.Normal("predicted")
STOCK = {
    "an object": keras.metrics.RootMeanSquaredError(),
    "one with a name": keras.metrics.MeanAbsoluteError(name="mine"),
    "a name": "mse",
    "a class": keras.metrics.MeanSquaredError,
    "a name of many metrics": "accuracy",
    "a function": keras.losses.mean_absolute_error,
    "a function in a metric": keras.metrics.MeanMetricWrapper(keras.losses.mean_absolute_error),
}
FINE = {
    "of the mean": OfMean(keras.metrics.RootMeanSquaredError(), PREDICTED),
    "of mean and scale": metrics.NormalCRPS(from_raw=True),
    "own class": Own(),
    "own function": of_all,
    "own function in a metric": keras.metrics.MeanMetricWrapper(of_all),
}


def ready(loss: Any = PREDICTED, **compiled: Any) -> Any:
    """A model that can be trained, predicted with and converted."""
    layers = [keras.layers.Dense(4, "tanh"), MCDropout(0.5), keras.layers.Dropout(0.5)]
    model = keras.Sequential([keras.Input((2,)), *layers, keras.layers.Dense(2)])
    model.compile("sgd", loss, **compiled)
    return model


def with_callback(callback: Any) -> Any:
    return lambda model: model.fit(X, Y, verbose=0, callbacks=[callback])


WAYS = {
    "train": lambda model: tfbdl.train(model, X, Y, epochs=1, batch_size=N, verbose=0),
    "ELBOLogger": with_callback(tfbdl.ELBOLogger()),
    "WeightSnapshots": with_callback(WeightSnapshots()),
    "predict": lambda model: tfbdl.predict(model, X, 2),
    "elbo": lambda model: tfbdl.elbo(model, X, Y, 2),
    "to_bayesian": lambda model: tfbdl.to_bayesian(model, num_data=N),
    "to_mc_dropout": tfbdl.to_mc_dropout,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("argument", ["metrics", "weighted_metrics"])
def test_a_metric_of_all_columns_is_refused(way: Any, argument: Any) -> None:
    model = ready(**{argument: [keras.metrics.RootMeanSquaredError()]})
    message = (
        "^metrics='root_mean_squared_error' would compare y with all outputs of model=.*, which "
        r"hold means and raw scales; give tfbdl.metrics.OfMean\(metric, likelihood\), with "
    )
    with pytest.raises(ValueError, match=message) as caught:
        WAYS[way](model)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("metric", STOCK)
@pytest.mark.parametrize(
    "loss", [PREDICTED, likelihoods.StudentT(scale="predicted"), likelihoods.Poisson()]
)
def test_every_metric_of_keras(metric: Any, loss: Any) -> None:
    with pytest.raises(ValueError, match=r"^metrics=.* would compare y with all outputs"):
        likelihoods.check_metrics(ready(loss, metrics=[STOCK[metric]]))
    likelihoods.check_metrics(ready(likelihoods.Normal(0.3), metrics=[STOCK[metric]]))
    likelihoods.check_metrics(ready("mse", metrics=[STOCK[metric]]))


@pytest.mark.parametrize("metric", FINE)
def test_metrics_that_may_know_what_they_are_given(metric: Any) -> None:
    likelihoods.check_metrics(ready(metrics=[FINE[metric]]))
    likelihoods.check_metrics(ready(metrics=[[FINE[metric]]], weighted_metrics=[]))


def test_no_metrics_and_no_compilation() -> None:
    likelihoods.check_metrics(ready())
    likelihoods.check_metrics(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]))


def test_several_outputs() -> None:
    joint = likelihoods.Joint({"a": PREDICTED})
    with pytest.raises(ValueError, match=r"^likelihood=Joint\(.* is of several outputs; give"):
        metrics.OfMean(keras.metrics.RootMeanSquaredError(), joint)


def test_empirical_bayes() -> None:
    model = network(2, PREDICTED, metrics=["mse"])
    callback = EmpiricalBayes(Laplace(model, PREDICTED), X, Y)
    with pytest.raises(ValueError, match=r"^metrics='mse' would compare y"):
        model.fit(X, Y, callbacks=[callback], verbose=0)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__]))
