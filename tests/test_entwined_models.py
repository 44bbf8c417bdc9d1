"""Models that share layers with models in them, as language models do with their embeddings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers as L

import tfbdl
from tfbdl import inference, likelihoods
from tfbdl.keras_private import is_graph

X = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")


def tied() -> keras.Model:
    """An outer model that ends in the layer that its inner one begins with."""
    keras.utils.set_random_seed(0)
    embedding = L.Dense(4, name="embedding")
    inputs = keras.Input((4,))
    body = L.Dense(4, "tanh", name="hidden")(L.Dropout(0.1)(embedding(inputs)))
    inner = keras.Model(inputs, body, name="inner")
    x = keras.Input((4,))
    model = keras.Model(x, embedding(inner(x)), name="tied")
    model.compile("adam", likelihoods.Normal(0.3))
    return model


def through_file(kept: Any, path: Path) -> Any:
    kept.save(path)
    return tfbdl.load(path)


def test_conversions_have_one_model_of_all_layers(tmp_path: Path) -> None:
    model = tied()
    converted = tfbdl.to_bayesian(model, num_data=6)
    assert not any(map(is_graph, converted.layers))
    assert [v.shape for v in converted.weights].count((4, 4)) == 2 * 2  # of mean and rho
    np.testing.assert_allclose(converted(X, training=False), model(X), atol=1e-6)
    np.testing.assert_allclose(tfbdl.to_deterministic(converted)(X), model(X), atol=1e-6)
    converted.fit(X, X, epochs=1, verbose=0)
    loaded = through_file(converted, tmp_path / "model.keras")
    of = [tfbdl.predict(m, X, 3, seed=1, verbose=0).stddev for m in (converted, loaded)]
    np.testing.assert_array_equal(*of)


def test_tied_weights_stay_tied() -> None:
    """The function that is drawn has one embedding at both of its ends."""
    model = tfbdl.to_bayesian(tied(), num_data=6)
    embedding = model.get_layer("embedding")
    embedding.set_weights([np.zeros_like(w) for w in embedding.get_weights()])
    np.testing.assert_array_equal(model(X, training=False), np.zeros((6, 4)))


def test_what_training_says_reaches_the_layers() -> None:
    """Where the outer model calls the inner one with training=True, it drops by itself."""
    model = tied()
    inner, x = model.get_layer("inner"), keras.Input((4,))
    always = keras.Model(x, model.get_layer("embedding")(inner(x, training=True)))
    copy = tfbdl.to_bayesian(always, num_data=6)
    inference, own = (
        np.array([copy(X, **how) for _ in range(8)]) for how in ({"training": False}, {})
    )
    assert np.ptp(inference, axis=0).max() == 0.0
    assert np.ptp(own, axis=0).max() > 1e-3


def test_masks_are_handed_on() -> None:
    ids = keras.Input((5,), dtype="int32")
    embedding = L.Embedding(7, 3, mask_zero=True, name="words")
    inner = keras.Model(ids, L.LSTM(3, return_sequences=True)(embedding(ids)))
    y = L.GlobalAveragePooling1D()(L.Concatenate()([inner(ids), embedding(ids)]))
    model = keras.Model(ids, L.Dense(2)(L.Dropout(0.1)(y)))
    x = np.array([[1, 2, 3, 0, 0], [4, 0, 0, 0, 0]])
    np.testing.assert_allclose(tfbdl.to_mc_dropout(model)(x), model(x), atol=1e-6)


def test_ensembles_of_such_models_are_kept(tmp_path: Path) -> None:
    fitted = inference.DeepEnsemble(tied(), 2).fit(X, X, epochs=1, verbose=0)
    loaded = through_file(fitted.ensemble(), tmp_path / "ensemble.keras")
    of = [tfbdl.predict(m, X, verbose=0).stddev for m in (fitted, loaded)]
    np.testing.assert_array_equal(*of)


def test_a_copy_in_double_precision() -> None:
    fitted = inference.Laplace(
        tied(), subset_of_weights="all", hessian_structure="diag", dtype="float64"
    ).fit(X, X)
    mean = tfbdl.predict(fitted, X, verbose=0).mean
    np.testing.assert_allclose(mean, tied()(X), atol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda model: inference.SWAG(model, rank=2).fit(X, X, epochs=3, verbose=0),
        lambda model: inference.Laplace(
            model, subset_of_weights="all", hessian_structure="diag"
        ).fit(X, X),
        lambda model: inference.SWAG(model, rank=2).fit(X, X, epochs=3, verbose=0).ensemble(2),
    ],
)
def test_files_that_would_not_load_are_refused(
    make: Callable[[keras.Model], Any], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"^model='tied' shares layers with the model 'inner'"):
        make(tied()).save(tmp_path / "posterior.keras")
