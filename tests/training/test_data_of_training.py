"""`tfbdl.train` on every form of data, with weights and validation data, beside Keras' `fit`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import two_replicas

import tfbdl
from tfbdl import inference, likelihoods

N, BATCH, SEED, EPOCHS = 12, 4, 7, 3
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)).astype("float32")
LABELS = np.arange(N) % 3
WEIGHTS = np.array([1, 2, 0, 1, 3, 1, 1, 0, 2, 1, 1, 2], "float32")
REPEATS = np.repeat(np.arange(N), WEIGHTS.astype(int))
CLASSES = {0: 2.0, 2: 0.5}


class Batches(keras.utils.PyDataset):
    """Batches of rows of arrays."""

    def __init__(self, arrays: Any, length: int | None, **workers: Any) -> None:
        super().__init__(**workers)
        self.arrays, self.length = arrays, length

    @property
    def num_batches(self) -> int | None:
        return self.length

    def __getitem__(self, index: int) -> Any:
        rows = slice(index * BATCH, (index + 1) * BATCH)
        return tuple(a[rows] for a in self.arrays)


def order(epoch: int) -> Any:
    """The order in which the loop takes arrays."""
    return tf.random.experimental.stateless_shuffle(tf.range(N), seed=(SEED, epoch)).numpy()


ROWS = np.concatenate([order(epoch) for epoch in range(1, EPOCHS + 1)])
"""The rows that a run on arrays takes, of all its epochs."""


def data_set(*arrays: Any) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(arrays).batch(BATCH)


def generator(*arrays: Any) -> Any:
    yield from (Batches(arrays, 0)[i] for i in range(len(arrays[0]) // BATCH))


FORMS = {
    "tf.data": data_set,
    "generator": generator,
    "PyDataset": lambda *a: Batches(a, None),
    "PyDataset, workers": lambda *a: Batches((*a,), None, workers=2, max_queue_size=2),
}


def network(optimizer: Any = None, num_data: int = N, random: bool = True) -> Any:
    keras.utils.set_random_seed(1)
    hidden = (
        tfbdl.layers.BayesDense(4, "tanh", num_data=num_data, seed=3)
        if random
        else keras.layers.Dense(4, "tanh")
    )
    model = keras.Sequential([keras.Input((3,)), hidden, keras.layers.Dense(3)])
    metrics = ["accuracy"]
    model.compile(
        optimizer or keras.optimizers.SGD(0.1), likelihoods.Categorical(), weighted_metrics=metrics
    )
    return model


def trained(model: Any, *data: Any, **given: Any) -> Any:
    given = {"epochs": EPOCHS, "seed": SEED, "jit_compile": False, "verbose": 0, **given}
    return tfbdl.train(model, *data, **given)


def log_of(folder: Path) -> str:
    """The log but for its times."""
    return re.sub(r"\(\d+\.\d{3} secs\)", "(secs)", (folder / "train.log").read_text())


@pytest.mark.parametrize("form", FORMS)
def test_the_same_batches_are_the_same_run(form: str) -> None:
    arrays, batches = network(), network()
    expected = trained(arrays, X, LABELS, sample_weight=WEIGHTS, batch_size=BATCH)
    data = FORMS[form](X[ROWS], LABELS[ROWS], WEIGHTS[ROWS])
    got = trained(batches, data, steps_per_epoch=N // BATCH)
    assert got.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(got[name], expected[name], 1e-5, err_msg=name)
    for ours, theirs in zip(batches.get_weights(), arrays.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-6)


def test_a_py_dataset_is_shuffled_by_seed_and_epoch() -> None:
    seen = []

    class Noting(Batches):
        def __getitem__(self, index: int) -> Any:
            seen.append(index)
            return super().__getitem__(index)

    trained(network(random=False), Noting((X, LABELS), 3), epochs=4)
    of_epochs = np.reshape(seen[1:], (4, 3))  # the first one is looked at before
    for number, indices in enumerate(of_epochs):
        np.testing.assert_array_equal(indices, np.random.default_rng([SEED, number]).permutation(3))
    assert len({tuple(indices) for indices in of_epochs}) > 1


@pytest.mark.parametrize("form", ["arrays", "tf.data", "generator", "function"])
def test_class_weights(form: str) -> None:
    """One batch, in which the order does not count."""
    model, keras_own = network(random=False), network(random=False)
    given: Any = {"class_weight": CLASSES, "epochs": 1}
    if form == "arrays":
        trained(model, X, LABELS, batch_size=N, **given)
    elif form == "function":
        examples = tf.data.Dataset.from_tensor_slices((X, LABELS))
        trained(model, lambda *_: examples, num_data=N, batch_size=N, **given)
    else:
        data = tf.data.Dataset.from_tensors((X, LABELS))
        data = iter(list(data.as_numpy_iterator())) if form == "generator" else data
        trained(model, data, steps_per_epoch=1, **given)
    keras_own.fit(X, LABELS, batch_size=N, class_weight=CLASSES, verbose=0)
    for ours, theirs in zip(model.get_weights(), keras_own.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-6)


def test_integer_weights_are_repeats() -> None:
    """Each loss is divided by its number of examples, and so is the KL: steps are in proportion."""
    weighted = network(keras.optimizers.SGD(0.1))
    rate = 0.1 * len(REPEATS) / N
    repeated = network(keras.optimizers.SGD(rate), num_data=len(REPEATS))
    trained(weighted, X, LABELS, sample_weight=WEIGHTS, batch_size=N)
    trained(repeated, X[REPEATS], LABELS[REPEATS], batch_size=len(REPEATS))
    for ours, theirs in zip(weighted.get_weights(), repeated.get_weights(), strict=True):
        if ours.ndim:
            np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)


@pytest.mark.parametrize("each", [False, True])
def test_weights_of_several_outputs(each: bool) -> None:
    """One array for all outputs, or one for each, as in `fit`."""

    def make() -> Any:
        keras.utils.set_random_seed(1)
        inputs = keras.Input((3,))
        outputs = {"a": keras.layers.Dense(3)(inputs), "b": keras.layers.Dense(1)(inputs)}
        model = keras.Model(inputs, outputs)
        losses = {"a": likelihoods.Categorical(), "b": likelihoods.Normal(0.5)}
        model.compile(keras.optimizers.SGD(0.1), losses, loss_weights={"a": 1.0, "b": 0.3})
        return model

    y = {"a": LABELS, "b": X[:, :1]}
    weights = {"a": WEIGHTS, "b": WEIGHTS[::-1]} if each else WEIGHTS
    ours, theirs = make(), make()
    trained(ours, X, y, sample_weight=weights, batch_size=N, epochs=1)
    theirs.fit(X, y, sample_weight=weights, batch_size=N, shuffle=False, verbose=0)
    for a, b in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-6)


VALIDATION = {
    "arrays": lambda: {"validation_data": (X[:6], LABELS[:6], WEIGHTS[:6])},
    "pandas": lambda: {
        "validation_data": (pd.DataFrame(X[:6]), pd.Series(LABELS[:6]), pd.Series(WEIGHTS[:6]))
    },
    "tf.data": lambda: {"validation_data": data_set(X[:6], LABELS[:6], WEIGHTS[:6])},
    "tf.data, endless": lambda: {
        "validation_data": data_set(X[:6], LABELS[:6], WEIGHTS[:6]).repeat(),
        "validation_steps": 2,
    },
    "PyDataset": lambda: {"validation_data": Batches((X[:6], LABELS[:6], WEIGHTS[:6]), 2)},
    "generator": lambda: {
        "validation_data": iter(
            [(X[:4], LABELS[:4], WEIGHTS[:4]), (X[4:6], LABELS[4:6], WEIGHTS[4:6])]
        ),
    },
}


@pytest.mark.parametrize("form", VALIDATION)
def test_validation_data(form: str, tmp_path: Path) -> None:
    """What `evaluate` says after each epoch goes to the history, the log and callbacks."""
    model, seen = network(random=False), []

    def note(epoch: int, logs: Any) -> None:
        evaluated = model.evaluate(X[:6], LABELS[:6], sample_weight=WEIGHTS[:6], verbose=0)
        seen.append([*evaluated, logs["val_loss"]])

    callbacks = [keras.callbacks.LambdaCallback(on_epoch_end=note)]
    history = trained(
        model,
        X,
        LABELS,
        batch_size=BATCH,
        callbacks=callbacks,
        savedir=tmp_path / "run",
        **VALIDATION[form](),
    )
    loss, accuracy, of_logs = np.transpose(seen)
    np.testing.assert_allclose(history["val_loss"], loss, 1e-5)
    np.testing.assert_allclose(history["val_accuracy"], accuracy, 1e-5)
    np.testing.assert_allclose(of_logs, loss, 1e-5)
    log = tfbdl.read_log(tmp_path / "run" / "train.log")
    np.testing.assert_allclose(log.metrics["val_loss"], loss, atol=1e-5)


def test_validation_changes_nothing_and_stops() -> None:
    plain, watched = network(), network()
    expected = trained(plain, X, LABELS, batch_size=BATCH)
    got = trained(watched, X, LABELS, batch_size=BATCH, validation_data=(X, LABELS))
    assert got["loss"] == expected["loss"]
    stop = keras.callbacks.EarlyStopping("val_loss", min_delta=100.0)
    given: Any = {"validation_data": (X, LABELS), "callbacks": [stop], "columns": ["val_loss"]}
    stopped = trained(network(), X, LABELS, **given)
    assert list(stopped) == ["val_loss"]
    assert len(stopped["val_loss"]) == 2


RESUMED = {
    "tf.data": lambda: {
        "x": tf.data.Dataset.from_tensor_slices((X, LABELS)).shuffle(N, seed=1).batch(5)
    },
    "tf.data, steps": lambda: {
        "x": tf.data.Dataset.from_tensor_slices((X, LABELS)).shuffle(N, seed=1).batch(5),
        "steps_per_epoch": 2,
    },
    "PyDataset, workers": lambda: {"x": Batches((X, LABELS), 3, workers=2)},
    "PyDataset, steps": lambda: {"x": Batches((X, LABELS), 3), "steps_per_epoch": 2},
    "generator": lambda: {
        "x": generator(np.tile(X, (4, 1)), np.tile(LABELS, 4)),
        "steps_per_epoch": 3,
    },
}


@pytest.mark.parametrize("form", RESUMED)
def test_resume(form: str, tmp_path: Path) -> None:
    """A run that goes on has the batches that it would have had."""
    tf.random.set_seed(0)
    for name, parts in (("whole", [4]), ("parts", [1, 4])):
        for epochs in parts:
            tf.random.set_seed(0)  # as in a new process
            given = RESUMED[form]()
            trained(network(), **given, epochs=epochs, savedir=tmp_path / name)
    assert log_of(tmp_path / "parts") == log_of(tmp_path / "whole")


@pytest.mark.parametrize("form", ["tf.data", "PyDataset", "generator"])
def test_replicas_share_each_batch(form: str) -> None:
    """The mean over both of their means is that over the batch."""
    data, steps = (X, LABELS, WEIGHTS), N // BATCH
    given: Any = {"epochs": 1, "steps_per_epoch": steps, "validation_data": (X, LABELS)}
    alone = trained(network(random=False), FORMS[form](*data), **given)
    with two_replicas.strategy().scope():
        model = network(random=False)
    shared = trained(model, FORMS[form](*data), **given)
    for name in ("loss", "val_loss"):
        np.testing.assert_allclose(shared[name], alone[name], 1e-5)


def test_the_last_batch_counts() -> None:
    """Batches are used as they are, whatever their size, as by `fit`."""
    ours, theirs = network(random=False), network(random=False)
    data = tf.data.Dataset.from_tensor_slices((X, LABELS)).batch(5)
    trained(ours, data, epochs=2)
    theirs.fit(data, epochs=2, verbose=0)
    for a, b in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-6)


def test_pandas() -> None:
    frame, labels = pd.DataFrame(X, columns=["a", "b", "c"]), pd.Series(LABELS)
    ours, arrays = network(), network()
    trained(ours, frame, labels, sample_weight=pd.Series(WEIGHTS))
    trained(arrays, X, LABELS, sample_weight=WEIGHTS)
    np.testing.assert_array_equal(ours.get_weights()[0], arrays.get_weights()[0])
    parts = {name: keras.Input((1,), name=name) for name in ("c", "a")}
    model = keras.Model(
        parts, keras.layers.Dense(3)(keras.layers.concatenate(list(parts.values())))
    )
    model.compile("sgd", likelihoods.Categorical())
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    copy.compile("sgd", likelihoods.Categorical())
    trained(model, frame, labels)
    trained(copy, {"a": X[:, :1], "c": X[:, 2:]}, LABELS)
    np.testing.assert_array_equal(model.get_weights()[0], copy.get_weights()[0])


def test_methods_that_train() -> None:
    """They hand data, weights and validation data to the loop."""
    data, seen = Batches((X, LABELS, WEIGHTS), 3), []

    class Noting(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            seen.append(logs["val_loss"])

    given: Any = {"epochs": 2, "validation_data": (X, LABELS), "verbose": 0}
    swag = inference.SWAG(network(random=False), jit_compile=False, seed=SEED)
    swag.fit(data, callbacks=[Noting()], **given)
    expected = trained(network(random=False), data, **{**given, "seed": SEED})
    np.testing.assert_allclose(seen, expected["val_loss"], 1e-5)
    members = inference.DeepEnsemble(
        lambda: network(random=False), 1, seed=SEED, jit_compile=False
    ).fit(X, LABELS, sample_weight=WEIGHTS, batch_size=BATCH, **given)
    model = network(random=False)
    trained(model, X, LABELS, sample_weight=WEIGHTS, batch_size=BATCH, epochs=2)
    theta = np.concatenate([w.ravel() for w in model.get_weights()])
    np.testing.assert_allclose(members.sample()[0], theta, 1e-5, 1e-6)


def test_statistics_of_swag_on_a_data_set() -> None:
    """Statistics of BatchNormalization are taken over the same batches as those of arrays."""

    def make() -> Any:
        keras.utils.set_random_seed(1)
        layers = [keras.layers.BatchNormalization(), keras.layers.Dense(3)]
        model = keras.Sequential([keras.Input((3,)), *layers])
        model.compile(keras.optimizers.SGD(0.1), likelihoods.Categorical())
        return inference.SWAG(model, rank=2, jit_compile=False)

    of_arrays = make().fit(X, LABELS, epochs=2, batch_size=N, verbose=0)
    of_batches = make().fit(
        tf.data.Dataset.from_tensor_slices((X, LABELS)).batch(N), epochs=2, verbose=0
    )
    states = [p.ensemble(2, batch_size=BATCH).states.numpy() for p in (of_arrays, of_batches)]
    np.testing.assert_allclose(*states, rtol=1e-5, atol=1e-6)
    endless = make().fit(data_set(X, LABELS).repeat(), epochs=2, steps_per_epoch=1, verbose=0)
    with pytest.raises(ValueError, match="x=None: layer="):
        endless.ensemble(2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": generator(X, LABELS)}, "x is a generator that does not say how many batches it has"),
        ({"x": data_set(X, LABELS).repeat()}, "x is a tf.data.Dataset without an end; give steps_"),
        (
            {"x": data_set(X, LABELS).filter(lambda x, y: True)},
            "x is a tf.data.Dataset that does not say how many batches it has; give steps_",
        ),
        ({"x": data_set(X, LABELS), "batch_size": 3}, "batch_size=3 is for arrays, but x is a tf."),
        ({"x": data_set(X, LABELS), "num_data": 3}, "num_data=3 is for a function x"),
        ({"x": data_set(X, LABELS), "y": LABELS}, "y is given, but x is a tf.data.Dataset"),
        ({"x": data_set(X)}, "y=None: give targets, or a data set of batches (x, y)"),
        ({"x": data_set(X, LABELS, -WEIGHTS)}, "sample_weight of batch 0 is -1 in example 0"),
        ({"x": X, "y": LABELS, "steps_per_epoch": 2}, "steps_per_epoch=2 is for data sets and"),
        ({"x": X, "y": LABELS, "sample_weight": X}, "sample_weight has shape (12, 3); give one"),
        ({"x": X, "sample_weight": WEIGHTS}, "sample_weight is given without y"),
        (
            {"x": X, "y": LABELS, "sample_weight": WEIGHTS, "class_weight": CLASSES},
            "class_weight and sample_weight are both given",
        ),
        (
            {"x": lambda *_: None, "num_data": 3, "sample_weight": WEIGHTS},
            "sample_weight is given, but x is a function",
        ),
        ({"x": X, "y": LABELS, "validation_steps": 1}, "validation_steps is given without"),
        (
            {"x": X, "y": LABELS, "validation_data": (X, LABELS), "validation_steps": 1},
            "validation_data: validation_steps=1 is for data sets and generators",
        ),
        (
            {"x": X, "y": LABELS, "validation_data": data_set(X, LABELS).repeat()},
            "validation_data: they have no end; give validation_steps",
        ),
        ({"x": X, "y": LABELS, "validation_data": X}, "validation_data: y=None: give targets"),
        (
            {"x": X, "y": LABELS, "validation_data": (X, LABELS[:3])},
            "validation_data: y has 3 examples and x has 12",
        ),
    ],
)
def test_refusals(given: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        trained(network(random=False), **given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_data_that_end_too_early(tmp_path: Path) -> None:
    given: Any = {"steps_per_epoch": 2, "savedir": tmp_path / "run"}
    with pytest.raises(tfbdl.TrainingError, match="x gave fewer examples in epoch 2 than 2 batch"):
        trained(network(random=False), generator(X, LABELS), **given)
    with pytest.raises(ValueError, match="x has ended within the 2 batches"):
        trained(network(random=False), generator(X[:BATCH], LABELS[:BATCH]), **given)
