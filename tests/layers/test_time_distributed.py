"""Layers inside Keras' `TimeDistributed`, which calls them past what hands arguments down."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import tfbdl
from tfbdl import layers
from tfbdl.likelihoods import Normal

B, T, D, N = 5, 3, 4, 20
X = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
X[:, 2] = X[:, 0]
INNER: dict[str, Any] = {
    "BayesDense": lambda: layers.BayesDense(2, num_data=N, seed=1),
    "VariationalDropout": lambda: layers.VariationalDropout(2, num_data=N, seed=1),
    "BayesWrapper": lambda: layers.BayesWrapper(keras.layers.Dense(2), num_data=N, seed=1),
    "ConcreteDropout": lambda: layers.ConcreteDropout(keras.layers.Dense(2), num_data=N, seed=1),
    "MCDropout": lambda: layers.MCDropout(0.5, seed=1),
    "BatchEnsembleWrapper": lambda: layers.BatchEnsembleWrapper(
        keras.layers.Dense(2), 3, input_initializer="random_sign"
    ),
    "VariationalLastLayer": lambda: layers.VariationalLastLayer(2, num_data=N, seed=1),
}


@pytest.mark.parametrize("steps", [T, None])
@pytest.mark.parametrize("name", list(INNER))
def test_draws_reach_it(name: str, steps: int | None) -> None:
    """A drawn function is that of the layer by itself, the same at each time."""
    keras.utils.set_random_seed(0)
    inner = INNER[name]()
    each = keras.Sequential([keras.Input((D,)), inner])
    inputs = keras.Input((steps, D))
    model = keras.Model(inputs, keras.layers.TimeDistributed(inner)(inputs))
    draws = {"num_samples": 4, "seed": 7, "return_samples": True, "verbose": 0}
    f = tfbdl.predict(model, X, likelihood=Normal(1.0), **draws).outputs
    of_steps = [
        tfbdl.predict(each, X[:, t], likelihood=Normal(1.0), **draws).outputs for t in range(T)
    ]
    np.testing.assert_allclose(f, np.stack(of_steps, axis=2), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(f[:, :, 0], f[:, :, 2], rtol=1e-5, atol=1e-6)
    assert np.ptp(f, axis=0).max() > 1e-2


def test_converted_networks_are_uncertain_in_it() -> None:
    inputs = keras.Input((T, D))
    y = keras.layers.TimeDistributed(keras.layers.Dense(3))(inputs)
    model = tfbdl.to_bayesian(keras.Model(inputs, y), num_data=N, initial_sigma=0.5)
    prediction = tfbdl.predict(model, X, 20, likelihood=Normal(1.0), verbose=0)
    assert prediction.epistemic_variance.min() > 1e-4
