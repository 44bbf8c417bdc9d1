"""Parts of a prediction, and predictions as tables."""

from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest

import tfbdl
from tfbdl.inference import Laplace, NeuralLinear
from tfbdl.likelihoods import Categorical, Normal

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 3)).astype("float32")
INDICES = {
    "slice": slice(1, 6, 2),
    "numbers": [6, 0, 0],
    "mask": X[:, 0] > 0,
    "last": -1,
    "none": slice(0, 0),
}


def network(units: int, loss: Any) -> Any:
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(4, "tanh"), keras.layers.Dropout(0.3), keras.layers.Dense(units)]
    model = keras.Sequential([keras.Input((3,)), *layers])
    model.compile(loss=loss)
    return model


def drawn() -> Any:
    model, loss = tfbdl.to_mc_dropout(network(2, None)), Normal(0.3)
    return tfbdl.predict(model, X, 9, seed=1, likelihood=loss, return_samples=True, verbose=0)


def classes() -> Any:
    model = tfbdl.to_mc_dropout(network(4, None))
    return tfbdl.predict(model, X, 9, seed=1, likelihood=Categorical(), verbose=0)


def exact(sigma: float = 0.3, units: int = 7) -> Any:
    """Predictions of as many outputs as examples: an axis of one cannot pass for the other."""
    y = RNG.normal(size=(7, units))
    posterior = NeuralLinear(network(units, Normal(0.3)), sigma_noise=sigma).fit(X, y)
    return tfbdl.predict(posterior, X, 5, return_samples=True)


def linearised() -> Any:
    posterior = Laplace(network(2, Normal(0.3))).fit(X, RNG.normal(size=(7, 2)))
    return tfbdl.predict(posterior, X, 5, return_samples=True)


PREDICTIONS = [drawn, classes, exact, lambda: exact(None), linearised]


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
@pytest.mark.parametrize("make", PREDICTIONS)
def test_rows_of_all_that_a_prediction_says(make: Any, index: Any) -> None:
    whole = make()
    part = whole[index]
    rows = np.atleast_1d(np.arange(7)[index])
    assert type(part) is type(whole)
    assert (len(part), len(whole)) == (len(rows), 7)
    for name in ("mean", "stddev", "aleatoric_stddev", "epistemic_variance", "expected_entropy"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[rows])
    if whole.outputs is not None:
        np.testing.assert_array_equal(part.samples, whole.samples[:, rows])
        if len(rows):
            y = RNG.normal(size=whole.mean.shape).astype("float32")
            np.testing.assert_allclose(part.log_prob(y[rows]), whole.log_prob(y)[rows], 1e-6)
            for got, expected in zip(part.interval(0.8), whole.interval(0.8), strict=True):
                np.testing.assert_allclose(got, expected[rows], 1e-5, 1e-6)


def test_a_number_outside_is_refused() -> None:
    with pytest.raises(IndexError):
        drawn()[7]


def test_a_table_of_densities() -> None:
    prediction = drawn()
    table = prediction.to_dataframe()
    assert isinstance(table, pd.DataFrame)
    assert len(table) == 7
    low, high = prediction.interval()
    for j in range(2):
        np.testing.assert_array_equal(table[f"mean[{j}]"], prediction.mean[:, j])
        np.testing.assert_array_equal(table[f"stddev[{j}]"], prediction.stddev[:, j])
        np.testing.assert_array_equal(table[f"low[{j}]"], low[:, j])
        np.testing.assert_array_equal(table[f"high[{j}]"], high[:, j])


def test_a_table_of_classes() -> None:
    prediction = classes()
    table = prediction.to_dataframe()
    np.testing.assert_array_equal(table["mean[3]"], prediction.mean[:, 3])
    np.testing.assert_array_equal(table["entropy"], prediction.entropy)
    np.testing.assert_array_equal(table["mutual_information"], prediction.mutual_information)
    assert "low[0]" not in table


def test_a_table_of_one_output_has_plain_names() -> None:
    assert list(exact(units=1).to_dataframe())[:2] == ["mean", "stddev"]
