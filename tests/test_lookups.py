"""Rows that embeddings do not have: refused by name, whatever compiles the lookup."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfbdl
from tfbdl import inference, likelihoods
from tfbdl.layers import BayesEmbedding, MCDropout
from tfbdl.lookups import Lookups, tables

pytestmark = pytest.mark.xla

ROWS, N = 10, 30
RNG = np.random.default_rng(0)
X = RNG.integers(-ROWS, ROWS, (N, 5)).astype("int32")
X[0] = -ROWS, -1, 0, 1, ROWS - 1
Y = np.arange(N) % 3
OUT = X.copy()
OUT[17, 2] = ROWS
REFUSED = (
    r"^(validation_data: )?x.* asks layer .table. for row 10 in example 17, of rows 0 to 9; .*$"
)


def embedding() -> Any:
    return keras.layers.Embedding(ROWS, 4, name="table")


def bayes_embedding() -> Any:
    return BayesEmbedding(ROWS, 4, num_data=N, name="table")


def network(make: Callable[[], Any] = embedding, dropout: bool = True) -> Any:
    keras.utils.set_random_seed(0)
    stack = [make(), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input((5,), dtype="int32"), *stack])
    if dropout:
        model = keras.Sequential([*stack[:-1], MCDropout(0.5), stack[-1]])
        model.build((None, 5))
    model.compile("adam", likelihoods.Categorical())
    return model


def in_parts(x: Any, y: Any) -> Any:
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(N)


MODEL_CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "predict": lambda m, x: tfbdl.predict(m, x, 2, verbose=0),
    "predict_mean": lambda m, x: tfbdl.predict(m, x, 0, verbose=0),
    "predict_samples": lambda m, x: tfbdl.predict(m, x, 2, return_samples=True, verbose=0),
    "predict_data_set": lambda m, x: tfbdl.predict(m, in_parts(x, Y), 2, verbose=0),
    "elbo": lambda m, x: tfbdl.elbo(m, x, Y, 2),
    "log_predictive_density": lambda m, x: tfbdl.log_predictive_density(m, x, Y, 2),
    "train": lambda m, x: tfbdl.train(m, x, Y, epochs=1, verbose=0),
    "train_data_set": lambda m, x: tfbdl.train(m, in_parts(x, Y), epochs=1, verbose=0),
    "validation": lambda m, x: tfbdl.train(m, X, Y, epochs=1, validation_data=(x, Y), verbose=0),
}


@pytest.mark.parametrize("make", [embedding, bayes_embedding])
@pytest.mark.parametrize("name", MODEL_CALLS)
def test_models(name: str, make: Callable[[], Any]) -> None:
    MODEL_CALLS[name](network(make), X)
    with pytest.raises(ValueError, match=REFUSED):
        MODEL_CALLS[name](network(make), OUT)


def laplace(model: Any) -> Any:
    return inference.Laplace(model, subset_of_weights="last_layer", hessian_structure="full")


def chains(model: Any) -> Any:
    return inference.MCMC(
        model, prior=1.0, kernel="rwmh", num_warmup=20, num_samples=2, num_chains=1
    )


POSTERIORS: dict[str, Callable[[Any], Any]] = {
    "laplace": laplace,
    "mcmc": chains,
    "map": lambda model: inference.MAP(model, prior=1.0, tolerance=1e6),
    "swag": inference.SWAG,
    "deep_ensemble": lambda model: inference.DeepEnsemble(lambda: network(dropout=False), 2),
}


def fitted(name: str, x: Any) -> Any:
    more = {"epochs": 2} if name in ("swag", "deep_ensemble") else {}
    return POSTERIORS[name](network(dropout=False)).fit(x, Y, **more)


@pytest.mark.parametrize("name", POSTERIORS)
def test_posteriors(name: str) -> None:
    posterior = fitted(name, X)
    with pytest.raises(ValueError, match=REFUSED):
        fitted(name, OUT)
    tfbdl.predict(posterior, X, 2, verbose=0)
    with pytest.raises(ValueError, match=REFUSED):
        tfbdl.predict(posterior, OUT, 2, verbose=0)


def test_later_batches_of_a_data_set() -> None:
    """TensorFlow's own refusal: XLA would train on another row."""
    data = tf.data.Dataset.from_tensor_slices((OUT, Y)).batch(10)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"= 10 is not in \[0, 10\)"):
        tfbdl.train(network(), data, epochs=1, verbose=0)
    with pytest.raises(ValueError, match=r"^x of batch 1 asks .* for row 10 in example 7, .*$"):
        tfbdl.predict(network(), data, 2, verbose=0)


def test_negative_rows_count_from_the_end() -> None:
    """As in Keras."""
    layers = [embedding(), bayes_embedding()]
    for layer in layers:
        layer.build((None, 5))
    layers[0].set_weights([layers[1].embeddings.mean.numpy()])
    np.testing.assert_array_equal(layers[0](X), layers[1](X))
    np.testing.assert_array_equal(layers[1](X), layers[1](X % ROWS))


def test_nested_and_shared() -> None:
    """The second of two calls, in a model in the model, of one of two inputs by name."""
    table = embedding()
    words = keras.Input((5,), dtype="int32")
    inner = keras.Model(words, keras.layers.GlobalAveragePooling1D()(table(words)))
    inputs = {name: keras.Input((5,), dtype="int32", name=name) for name in ("first", "second")}
    h = keras.layers.Concatenate()([inner(inputs["first"]), inner(inputs["second"])])
    model = keras.Model(inputs, keras.layers.Dense(3)(MCDropout(0.5)(h)))
    tfbdl.predict(model, {"first": X, "second": X}, 2, verbose=0)
    with pytest.raises(ValueError, match=REFUSED):
        tfbdl.predict(model, {"first": X, "second": OUT}, 2, verbose=0)


class Places(keras.layers.Layer):
    """Adds a row of a table for each place, as transformers do whose places are constants."""

    def __init__(self, *, of_variable: bool) -> None:
        super().__init__()
        places = keras.ops.expand_dims(keras.ops.arange(5), 0)
        self.places = keras.Variable(places, trainable=False) if of_variable else places
        self.table = keras.layers.Embedding(5, 4, name="places")

    def call(self, x: Any) -> Any:
        return x + self.table(self.places)


def placed(*, of_variable: bool = False) -> Any:
    keras.utils.set_random_seed(0)
    words = keras.Input((5,), dtype="int32")
    h = Places(of_variable=of_variable)(embedding()(words))
    outputs = keras.layers.Dense(3)(keras.layers.GlobalAveragePooling1D()(h))
    model = keras.Model(words, outputs)
    model.compile("adam", likelihoods.Categorical())
    return model


def test_constants() -> None:
    """Rows for constants that a layer holds are of no input."""
    model = placed()
    assert [layer.name for layer, _ in Lookups(model).indices(X)] == ["table"]
    tfbdl.predict(model, X, 0, verbose=0)
    with pytest.raises(ValueError, match=REFUSED):
        tfbdl.predict(model, OUT, 0, verbose=0)


@pytest.mark.parametrize("structure", ["diag", "kron"])
def test_posteriors_of_rows_for_constants(structure: str) -> None:
    def draws(model: Any) -> np.ndarray:
        return inference.Laplace(model, hessian_structure=structure).fit(X, Y).sample(9)

    np.testing.assert_allclose(draws(placed()), draws(placed(of_variable=True)), 1e-4)


def test_quantized() -> None:
    """Keras calls them by another name."""
    model = network()
    model.layers[0].quantize("int8")
    tfbdl.predict(model, X, 2, verbose=0)
    with pytest.raises(ValueError, match=REFUSED):
        tfbdl.predict(model, OUT, 2, verbose=0)


def test_compiled_once_for_all_numbers_of_examples() -> None:
    model, traced = network(), []
    table = model.layers[0]
    call = type(table).call

    def noted(*args: Any) -> Any:
        traced.append(args)
        return call(*args)

    listening = mock.patch.object(type(table), "call", noted)
    lookups = Lookups(model)
    with listening:
        for number in (N, 1, N):
            ((layer, indices),) = lookups.indices(X[:number])
            assert layer is table
            np.testing.assert_array_equal(indices, X[:number])
    assert len(traced) == 1
    assert tables(model) == [table]
    assert not tables(keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]))


def test_lookups_alone_are_computed() -> None:
    """Not the loop of an LSTM behind them, though it reads variables."""
    words = keras.Input((5,), dtype="int32")
    h = keras.layers.LSTM(3)(embedding()(words + 1))
    _, graph = Lookups(keras.Model(words, h))._graph(X, (tf.TensorSpec([None, 5], tf.int32),))
    kinds = {op.type for op in graph.graph.get_operations()}
    assert "AddV2" in kinds
    assert not [kind for kind in kinds if "While" in kind or "Mul" in kind]
    (indices,) = graph(tf.constant(X))
    np.testing.assert_array_equal(indices, X + 1)
