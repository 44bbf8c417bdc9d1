"""Members that train side by side are those that train alone, or are refused."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfbdl
from tfbdl.inference import DeepEnsemble
from tfbdl.likelihoods import Categorical, Normal

N = 40
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)).astype("float32")
Y = (X[:, :1] - 0.5 * X[:, 1:2] + RNG.normal(0, 0.3, (N, 1))).astype("float32")
LABELS = np.arange(N) % 3
POSITIONS = RNG.integers(0, 3, (N, 5))
FLAGS = RNG.integers(0, 2, (N, 4)).astype("float32")
SERIES = RNG.normal(size=(N, 6, 3)).astype("float32") * (np.arange(6) < 4)[:, None]
SPARSE = keras.losses.SparseCategoricalCrossentropy
BINARY = keras.losses.BinaryCrossentropy
DECAY = keras.optimizers.schedules.ExponentialDecay(0.01, 3, 0.5)
L1, L2 = keras.regularizers.L1(0.01), keras.regularizers.L2(0.01)


def net(
    *layers: Any, shape: Any = (3,), optimizer: Any = None, loss: Any = None, **others: Any
) -> Any:
    model = keras.Sequential([keras.Input(shape), *layers])
    model.compile(optimizer or keras.optimizers.Adam(0.02), loss or Normal(0.3), **others)
    return model


def dense(units: int = 1, **kwargs: Any) -> Any:
    return net(keras.layers.Dense(4, "tanh"), keras.layers.Dense(units), **kwargs)


def of_positions(loss: Any) -> Any:
    return net(keras.layers.Dense(15), keras.layers.Reshape((5, 3)), loss=loss)


def heads(**kwargs: Any) -> Any:
    x = keras.Input((3,))
    outputs = {"a": keras.layers.Dense(1, name="a")(x), "b": keras.layers.Dense(3, name="b")(x)}
    model = keras.Model(x, outputs)
    model.compile(keras.optimizers.SGD(0.01), {"a": Normal(0.3), "b": Categorical()}, **kwargs)
    return model


class Plain(keras.Model):
    """A class of its own, whose call takes no `training`, with a loss of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.dense(x)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        return tf.reduce_mean(tf.abs(y - y_pred))


def plain() -> Any:
    model = Plain()
    model(X[:1])
    model.compile(keras.optimizers.SGD(0.05))
    return model


ALIKE = {
    "momentum": (lambda: dense(optimizer=keras.optimizers.SGD(0.005, momentum=0.9)), X, Y),
    "decay": (lambda: dense(optimizer=keras.optimizers.AdamW(0.02, weight_decay=0.1)), X, Y),
    "schedule": (lambda: dense(optimizer=keras.optimizers.SGD(DECAY)), X, Y),
    "clipped": (lambda: dense(optimizer=keras.optimizers.SGD(0.01, clipvalue=0.1)), X, Y),
    "any loss": (lambda: dense(loss="mse"), X, Y),
    "weight of a loss": (lambda: dense(loss_weights=0.1), X, Y),
    "summed": (lambda: dense(3, loss=SPARSE(True, reduction="sum")), X, LABELS),
    "ignored class": (lambda: dense(3, loss=SPARSE(True, ignore_class=0)), X, LABELS),
    "smoothed": (lambda: dense(4, loss=BINARY(True, label_smoothing=0.3)), X, FLAGS),
    "columns": (lambda: dense(4, loss=BINARY(from_logits=True)), X, FLAGS),
    "positions of Keras": (lambda: of_positions(SPARSE(from_logits=True)), X, POSITIONS),
    "positions": (lambda: of_positions(Categorical()), X, POSITIONS),
    "regularised": (
        lambda: net(
            keras.layers.Dense(4, "tanh", kernel_regularizer=L2),
            keras.layers.Dense(1, activity_regularizer=L1),
        ),
        X,
        Y,
    ),
    "float64": (
        lambda: net(keras.layers.Dense(1, dtype="float64")),
        X.astype("float64"),
        Y.astype("float64"),
    ),
    "heads": (lambda: heads(loss_weights={"a": 0.3, "b": 2.0}), X, {"a": Y, "b": LABELS}),
    "masked": (
        lambda: net(keras.layers.Masking(), keras.layers.Dense(1), shape=(6, 3)),
        SERIES,
        SERIES[..., :1],
    ),
    "recurrent": (
        lambda: net(keras.layers.LSTM(2), keras.layers.Dense(1), shape=(6, 3)),
        SERIES,
        Y,
    ),
    "convolved": (
        lambda: net(
            keras.layers.Conv1D(2, 3), keras.layers.Flatten(), keras.layers.Dense(1), shape=(6, 3)
        ),
        SERIES,
        Y,
    ),
    "a class of its own": (plain, X, Y),
    "more than there are": (dense, X[:7], Y[:7]),
}


@pytest.mark.parametrize("name", ALIKE)
def test_members_are_those_that_train_alone(name: str) -> None:
    make, x, y = ALIKE[name]
    batch_size = 100 if "more" in name else 9
    alone = DeepEnsemble(make, 2, seed=5).fit(x, y, epochs=2, batch_size=batch_size, verbose=0)
    together = DeepEnsemble(make, 2, seed=5)
    assert together.fit_together(x, y, epochs=2, batch_size=batch_size) is together
    keras.utils.set_random_seed(5)
    start = np.concatenate([np.ravel(w) for w in make().trainable_weights])
    assert np.abs(alone.sample()[0] - start).max() > 1e-3
    np.testing.assert_allclose(together.sample(), alone.sample(), rtol=1e-4, atol=2e-5)


def test_frozen_layers_and_dictionaries() -> None:
    """A model says what all members are like, and frozen layers are common to all."""
    inputs = {"a": keras.Input((2,), name="a"), "b": keras.Input((1,), name="b")}
    body = keras.layers.Dense(4, "tanh", trainable=False)
    joined = keras.layers.Concatenate()(list(inputs.values()))
    model = keras.Model(inputs, keras.layers.Dense(3)(body(joined)))
    model.compile(keras.optimizers.Adam(0.05), SPARSE(from_logits=True))
    x = {"a": X[:, :2], "b": X[:, 2:]}
    alone = DeepEnsemble(model, 2).fit(x, LABELS, epochs=2, batch_size=9, verbose=0)
    together = DeepEnsemble(model, 2).fit_together(x, LABELS, epochs=2, batch_size=9)
    np.testing.assert_allclose(together.sample(), alone.sample(), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(together.network().layers[3].kernel, body.kernel)
    expected, actual = (tfbdl.predict(fitted, x, verbose=0).mean for fitted in (alone, together))
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
    together.network().fit(x, LABELS, epochs=1, verbose=0)  # with an optimizer of its own


def excluding() -> Any:
    optimizer = keras.optimizers.AdamW(0.01)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return dense(optimizer=optimizer)


def used() -> Any:
    model = dense()
    model.fit(X, Y, verbose=0)
    return model


def one_after_the_other(*models: Any) -> Any:
    turns = iter(models)

    def build() -> Any:
        return next(turns)()

    return build


REFUSED = {
    "norm": (lambda: dense(optimizer=keras.optimizers.SGD(0.1, clipnorm=1.0)), r"SGD\(clipnorm\)"),
    "scale": (
        lambda: dense(optimizer=keras.optimizers.SGD(0.1, loss_scale_factor=8.0)),
        r"SGD\(loss_scale_factor\)",
    ),
    "matrices": (lambda: dense(optimizer=keras.optimizers.Muon(0.1)), "Muon, not known to move"),
    "excluded": (excluding, "excludes weights from decay"),
    "used": (used, "has moved weights already"),
    "constraint": (
        lambda: net(keras.layers.Dense(1, kernel_constraint="non_neg")),
        "kernel'. with a constraint",
    ),
    "types": (
        lambda: net(keras.layers.Dense(2), keras.layers.Dense(1, dtype="float64")),
        "weights of several types",
    ),
    "dropout": (lambda: net(keras.layers.Dropout(0.1), keras.layers.Dense(1)), "such as Dropout"),
    "statistics": (
        lambda: net(
            keras.layers.Dense(4), keras.layers.BatchNormalization(), keras.layers.Dense(1)
        ),
        "such as Dropout",
    ),
    "frozen": (
        lambda: net(keras.layers.Dense(4, trainable=False), keras.layers.Dense(1)),
        "gives member 1 another frozen weight than member 0",
    ),
    "rates": (
        one_after_the_other(dense, lambda: dense(optimizer=keras.optimizers.Adam(0.1))),
        "gives member 1 another optimizer than",
    ),
    "losses": (
        one_after_the_other(dense, lambda: dense(loss=Normal(0.5))),
        "gives member 1 another loss than",
    ),
    "regularisers": (
        one_after_the_other(
            lambda: net(keras.layers.Dense(1)),
            lambda: net(keras.layers.Dense(1, kernel_regularizer=L2)),
        ),
        "gives member 1 another setting of layers than",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_members_that_would_not_train_as_alone(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(ValueError, match=f"^build_model .*{message}.*; call fit$"):
        DeepEnsemble(make, 2).fit_together(X, Y, epochs=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": tf.data.Dataset.from_tensors((X, Y))}, "^x is no arrays, which members"),
        ({"x": X, "y": LABELS + 5, "units": 3}, "^y has the label 5"),
        ({"x": X, "y": Y[:-1]}, "^y has 39 examples and x has 40; give one y for each$"),
        ({"x": X, "y": Y, "epochs": 0}, "^epochs=0"),
        ({"x": X, "y": Y, "batch_size": 0}, "^batch_size=0"),
        ({"x": X, "y": None}, "^y=None"),
    ],
)
def test_data_are_checked_as_in_fit(arguments: dict[str, Any], message: str) -> None:
    given = {"epochs": 1, **arguments}
    units = given.pop("units", 1)
    loss = Categorical() if units == 3 else Normal(0.3)
    with pytest.raises(ValueError, match=message):
        DeepEnsemble(lambda: dense(units, loss=loss), 2).fit_together(**given)


def test_weights_that_are_lost() -> None:
    def make() -> Any:
        return dense(optimizer=keras.optimizers.SGD(1e12))

    with pytest.raises(
        tfbdl.TrainingError, match=r"^weights of member 0 are not finite after epoch"
    ):
        DeepEnsemble(make, 2).fit_together(X, Y, epochs=5, batch_size=5)


def test_members_in_a_folder() -> None:
    with pytest.raises(ValueError, match=r"^in_memory=False: "):
        DeepEnsemble(dense, 2, in_memory=False).fit_together(X, Y, epochs=1)
