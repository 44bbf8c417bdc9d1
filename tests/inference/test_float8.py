"""Layers quantized to float8, whose scales steps of a training set: who takes them, who not."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

import tfbdl
from tfbdl.checking import prior_predictive
from tfbdl.flat_model import FlatModel
from tfbdl.inference import (
    MAP,
    MCMC,
    SGMCMC,
    SWAG,
    DeepEnsemble,
    Laplace,
    LogPosterior,
    MeanFieldVI,
    NeuralLinear,
    WeightSnapshots,
)
from tfbdl.models import NormalWeights
from tfbdl.optimizers import IVON, SGHMC

X = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
Y = X[:, :1] - X[:, 1:2]


def network(*quantized: str, optimizer: Any = "sgd") -> keras.Model:
    stack = [keras.layers.Dense(4, "tanh", name="body"), keras.layers.Dense(1, name="head")]
    model = keras.Sequential([keras.Input((3,)), *stack], name="net")
    for name in quantized:
        model.get_layer(name).quantize("float8")
    model.compile(optimizer, tfbdl.likelihoods.Normal(0.3))
    return model


@pytest.mark.parametrize("method", [Laplace, NeuralLinear])
def test_the_last_layer_over_a_body_in_float8(method: Any) -> None:
    posterior = method(network("body")).fit(X, Y)
    assert posterior.paths == ["head/kernel", "head/bias"]
    assert np.isfinite(tfbdl.predict(posterior, X, verbose=0).stddev).all()


def test_a_bias_beside_a_kernel_in_float8() -> None:
    assert Laplace(network("head"), subset_of_weights=["head/bias"]).paths == ["head/bias"]


def test_members_in_float8_have_scales_of_their_own() -> None:
    ensemble = DeepEnsemble(lambda: network("body", "head"), 2, jit_compile=False)
    ensemble.fit(X, Y, epochs=3, batch_size=10, verbose=0)
    flat, thetas = FlatModel(network("body", "head")), ensemble.sample()
    outputs = tfbdl.predict(ensemble, X, return_samples=True, verbose=0).outputs
    for theta, actual in zip(thetas, outputs, strict=True):
        np.testing.assert_allclose(actual, flat(theta, X), 1e-5)
    ends = np.cumsum(flat.sizes)[[path.endswith("amax_history") for path in flat.shapes]]
    assert (thetas[0, ends - 1] != thetas[1, ends - 1]).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Laplace(network("body"), subset_of_weights="all"),
        lambda: Laplace(network("body"), subset_of_weights=["head", "body"]),
        lambda: Laplace(network("body", "head")),
        lambda: LogPosterior(network("body"), 1.0, X, Y),
        lambda: MAP(network("body"), 1.0, dtype="float32"),
        lambda: MAP(network("body"), 1.0),
        lambda: MCMC(network("body"), 1.0),
        lambda: SWAG(network("body")),
        lambda: SGMCMC(network("body", optimizer=SGHMC(1e-3, num_data=20, prior=1.0))),
        lambda: MeanFieldVI(network("body", optimizer=IVON(0.1, num_data=20))),
        lambda: NormalWeights(network("body"), np.zeros(29), np.ones(29)),
        lambda: prior_predictive(network("body"), X, prior=1.0),
        lambda: WeightSnapshots().set_model(network("body")),
    ],
)
def test_scales_have_no_posterior(make: Callable[[], Any]) -> None:
    message = r"^model='net' has the layer '(body|head)' quantized to float8, whose scales are no "
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
