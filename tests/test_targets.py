"""Targets that a likelihood gives no probability are refused wherever data come in."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfbdl
from tfbdl import likelihoods
from tfbdl.inference import MAP, MCMC, SWAG, DeepEnsemble, Laplace, LogPosterior, NeuralLinear
from tfbdl.likelihoods import Bernoulli, Categorical, ContinuousBernoulli, Normal, Poisson, StudentT

N = 12
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).astype("float32")
LABELS = np.arange(N) % 3
ONE_HOT = np.eye(3)[LABELS]
BITS = (LABELS[:, None] > 0).astype("float32")
REAL = RNG.normal(size=(N, 1)).astype("float32")


def late(y: Any, value: Any) -> Any:
    """Y with a last target of another value, behind the first few."""
    y = np.array(y, np.result_type(np.asarray(y), np.asarray(value)))
    y[-1] = value
    return y


WRONG_SHAPE = r"^y has shape \(12, 2\); (these outputs describe \(12, [13]\)|outputs of shape)"
CLASSES = "outputs of 3 classes need labels from 0 to 2$"
UNIT = r"give values in \[0, 1\]$"

# name: likelihood or loss of Keras, outputs, targets, message
REFUSED = {
    "half a label more": (Categorical(), 3, LABELS + 0.5, rf"^y has the label 0\.5; {CLASSES}"),
    "one half label, late": (
        Categorical(),
        3,
        late(LABELS, 1.5),
        rf"^y has the label 1\.5; {CLASSES}",
    ),
    "no such label": (Categorical(), 3, late(LABELS, 3), f"^y has the label 3; {CLASSES}"),
    "a negative label": (Categorical(), 3, late(LABELS, -1), f"^y has the label -1; {CLASSES}"),
    "labels in a column": (Categorical(), 3, LABELS[:, None] + 1, f"^y has the label 3; {CLASSES}"),
    "a row of ones": (
        Categorical(),
        3,
        late(ONE_HOT, 1.0),
        r"^y has the row \[1. 1. 1.\]; .*one-hot",
    ),
    "rows too short": (Categorical(), 3, ONE_HOT[:, :2], WRONG_SHAPE),
    "label of probabilities": (
        Categorical(from_logits=False),
        3,
        late(LABELS, 3),
        f"^y has the label 3; {CLASSES}",
    ),
    "2 for 1": (Bernoulli(), 1, 2 * BITS, f"^y has the value 2; {UNIT}"),
    "-1 for 0": (Bernoulli(), 1, 2 * BITS - 1, f"^y has the value -1; {UNIT}"),
    "2 of probabilities, late": (
        Bernoulli(from_logits=False),
        1,
        late(BITS, 2),
        f"^y has the value 2; {UNIT}",
    ),
    "two bits for one": (Bernoulli(), 1, np.hstack([BITS, BITS]), WRONG_SHAPE),
    "grey above 1": (
        ContinuousBernoulli(),
        1,
        late(BITS, 1.01),
        rf"^y has the value 1\.01; {UNIT}",
    ),
    "a negative count": (Poisson(), 1, late(LABELS, -1), "^y has the value -1; give counts 0, 1"),
    "half a count": (Poisson(), 1, late(LABELS, 0.5), r"^y has the value 0\.5; give counts 0, 1"),
    "two numbers for one": (Normal(), 1, np.hstack([REAL, REAL]), WRONG_SHAPE),
    "one number for three": (Normal(), 3, REAL, r"^y has shape \(12, 1\); these outputs describe"),
    "two numbers for a mean and a scale": (
        Normal("predicted"),
        2,
        np.hstack([REAL, REAL]),
        WRONG_SHAPE,
    ),
    "two for a location and a scale": (
        StudentT(scale="predicted"),
        2,
        np.hstack([REAL, REAL]),
        WRONG_SHAPE,
    ),
}

KERAS = {
    "sparse": (
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        3,
        LABELS + 0.5,
        f"^y has the label .*; {CLASSES}",
    ),
    "sparse by name": (
        "sparse_categorical_crossentropy",
        3,
        late(LABELS, 3),
        f"^y has the label 3; {CLASSES}",
    ),
    "sparse that ignores another": (
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1),
        3,
        late(LABELS, -2),
        f"^y has the label -2; {CLASSES}",
    ),
    "categorical": (
        keras.losses.CategoricalCrossentropy(from_logits=True),
        3,
        late(ONE_HOT, 1.0),
        r"^y has the row \[1. 1. 1.\]; .*one-hot",
    ),
    "binary": (
        keras.losses.BinaryCrossentropy(from_logits=True),
        1,
        2 * BITS - 1,
        f"^y has the value -1; {UNIT}",
    ),
    "binary by name": ("binary_crossentropy", 1, late(BITS, 2), f"^y has the value 2; {UNIT}"),
}


def network(loss: Any, units: int) -> Any:
    likelihood = likelihoods.of_loss(loss)
    ends = None
    if not getattr(likelihood, "from_logits", True):
        ends = "sigmoid" if units == 1 else "softmax"
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(units, ends)])
    model.compile("sgd", loss)
    return model


def as_examples(y: Any) -> Any:
    return lambda epoch, context: tf.data.Dataset.from_tensor_slices((X, y))


def batches(y: Any) -> Any:
    return tf.data.Dataset.from_tensor_slices((X, y)).batch(5)


def posterior(loss: Any, units: int, x: Any, y: Any) -> Any:
    return LogPosterior(network(loss, units), 1.0, x, y)


OF_ALL = {"subset_of_weights": "all", "hessian_structure": "diag"}
TRAIN = {"epochs": 1, "batch_size": N, "verbose": 0, "jit_compile": False}
WAYS = {
    "train": lambda loss, units, y: tfbdl.train(network(loss, units), X, y, **TRAIN),
    "train on a function": lambda loss, units, y: tfbdl.train(
        network(loss, units), as_examples(y), num_data=N, **TRAIN
    ),
    "DeepEnsemble": lambda loss, units, y: DeepEnsemble(
        lambda: network(loss, units), 2, jit_compile=False
    ).fit(X, y, epochs=1, batch_size=N, verbose=0),
    "SWAG of a data set": lambda loss, units, y: SWAG(network(loss, units), jit_compile=False).fit(
        batches(y), epochs=2, verbose=0
    ),
    "MCMC": lambda loss, units, y: MCMC(network(loss, units), 1.0).fit(X, y, verbose=0),
    "MAP": lambda loss, units, y: MAP(network(loss, units), 1.0).fit(X, y),
    "elbo": lambda loss, units, y: tfbdl.elbo(network(loss, units), X, y, 2),
    "elbo of a data set": lambda loss, units, y: tfbdl.elbo(
        network(loss, units), batches(y), num_samples=2
    ),
    "log_predictive_density": lambda loss, units, y: tfbdl.log_predictive_density(
        network(loss, units), X, y, 2
    ),
    "LogPosterior": lambda loss, units, y: posterior(loss, units, X, y),
    "LogPosterior of a data set": lambda loss, units, y: posterior(loss, units, batches(y), None),
    "Laplace": lambda loss, units, y: Laplace(network(loss, units), **OF_ALL).fit(X, y),
    "Laplace of a data set": lambda loss, units, y: Laplace(network(loss, units), **OF_ALL).fit(
        batches(y)
    ),
}


SLOW = (
    "SWAG of a data set",
    "MCMC",
    "MAP",
    "elbo of a data set",
    "Laplace of a data set",
    "DeepEnsemble",
    "log_predictive_density",
)
CROSSED = [
    (name, way)
    for way in WAYS
    for name in {**REFUSED, **KERAS}
    if way not in SLOW or name in ("half a label more", "-1 for 0", "rows too short", "binary")
]


@pytest.mark.parametrize(("name", "way"), CROSSED)
def test_is_refused_in_one_line(name: str, way: Any) -> None:
    loss, units, y, message = {**REFUSED, **KERAS}[name]
    if "data set" in way:  # a batch at a time
        message = message.replace("12, ", r"\d+, ")
    with pytest.raises(ValueError, match=message) as caught:
        WAYS[way](loss, units, y)
    assert "\n" not in str(caught.value)


def test_nothing_is_written_and_nothing_learned(tmp_path: Path) -> None:
    model = network(Categorical(), 3)
    before = model.get_weights()
    with pytest.raises(ValueError, match=r"^y has the label"):
        tfbdl.train(model, X, LABELS + 0.5, savedir=tmp_path / "run", **TRAIN)
    assert not list(tmp_path.iterdir())
    np.testing.assert_array_equal(model.get_weights()[0], before[0])


def test_neural_linear() -> None:
    model = network("mse", 2)
    for y, message in (
        (REAL, r"^y has shape \(12, 1\); these outputs describe \(12, 2\)$"),
        (np.full((N, 2), np.nan), "^y is not finite in example 0"),
    ):
        with pytest.raises(ValueError, match=message):
            NeuralLinear(model).fit(X, y)


TAKEN = {
    "labels": (Categorical(), 3, LABELS),
    "labels in a column": (Categorical(), 3, LABELS[:, None]),
    "labels as floats": (Categorical(), 3, LABELS.astype("float32")),
    "rows": (Categorical(), 3, ONE_HOT),
    "rows of booleans": (Categorical(), 3, ONE_HOT.astype(bool)),
    "soft rows": (Categorical(), 3, np.full((N, 3), 1 / 3, "float32")),
    "bits": (Bernoulli(), 1, BITS),
    "bits without an axis": (Bernoulli(), 1, BITS[:, 0].astype("int64")),
    "grey": (Bernoulli(), 1, 0.5 * BITS),
    "counts": (Poisson(), 1, LABELS),
    "large counts": (Poisson(), 1, 10_000 * LABELS),
    "numbers": (Normal(), 1, REAL[:, 0]),
    "numbers for means and scales": (Normal("predicted"), 2, REAL),
    "keras ignores -1": (
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1),
        3,
        late(LABELS, -1),
    ),
    "keras smooths": (keras.losses.BinaryCrossentropy(label_smoothing=0.1), 1, BITS),
    "keras compares": ("mse", 3, REAL),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_fits_is_taken(name: str) -> None:
    loss, units, y = TAKEN[name]
    history = tfbdl.train(network(loss, units), X, y, **TRAIN)
    assert np.isfinite(history["loss"][0])


def test_only_the_outputs_of_one_example_are_needed() -> None:
    """For targets of many; none is copied for it, and the last one counts."""
    y = np.zeros((100_000, 3), "float32")
    outputs = tf.zeros((1, 3))
    Bernoulli().check_targets(y, outputs)
    y[-1, -1] = 7
    with pytest.raises(ValueError, match=r"^y has the value 7"):
        Bernoulli().check_targets(y, outputs)


def test_mode_search_meets_it_first() -> None:
    with pytest.raises(ValueError, match=r"^y has the value 2"):
        MAP(network(Bernoulli(), 1), 1.0).fit(X, late(BITS, 2))


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__]))
