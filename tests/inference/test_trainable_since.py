"""Posteriors of a network whose user freezes layers after `fit`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import tfbdl
from tfbdl.inference import MAP, MCMC, SWAG, Laplace, Mixture, NeuralLinear
from tfbdl.likelihoods import Normal

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(20, 3)).astype("float32"), RNG.normal(size=(20, 1)).astype("float32")

METHODS: dict[str, Callable[[keras.Model], Any]] = {
    "Laplace": lambda model: Laplace(model).fit(X, Y),
    "NeuralLinear": lambda model: NeuralLinear(model).fit(X, Y),
    "MAP": lambda model: MAP(model, prior=1.0).fit(X, Y),
    "MCMC": lambda model: MCMC(model, prior=1.0, num_samples=20, num_warmup=100, num_chains=1).fit(
        X, Y
    ),
    "SWAG": lambda model: SWAG(model, rank=2).fit(X, Y, epochs=4, verbose=0),
    "Mixture": lambda model: Mixture([SWAG(model, rank=2)]).fit(X, Y, epochs=4, verbose=0),
}


def network() -> keras.Model:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dense(1)])
    model.compile("adam", Normal(0.5))
    model.fit(X, Y, verbose=0)
    return model


@pytest.mark.parametrize("kind", METHODS)
def test_frozen_after_fit(kind: str, tmp_path: Path) -> None:
    """It says so before a file is written that nothing could load, and is whole when undone."""
    model = network()
    posterior = METHODS[kind](model)
    before = tfbdl.predict(posterior, X, num_samples=5, seed=0).mean
    path = tmp_path / "posterior.keras"
    asked = {
        "predict": lambda: tfbdl.predict(posterior, X),
        "ensemble": lambda: posterior.ensemble(2),
        "save": lambda: posterior.save(path),
    }
    for frozen in (model, model.layers[0]):
        frozen.trainable = False
        for what, ask in asked.items():
            with pytest.raises(ValueError, match=f"^{what}: model=.* other trainable weights"):
                ask()
        assert not path.exists()
        frozen.trainable = True
    np.testing.assert_array_equal(tfbdl.predict(posterior, X, num_samples=5, seed=0).mean, before)
    posterior.save(path)
    loaded = tfbdl.predict(tfbdl.load(path), X, num_samples=5, seed=0).mean
    np.testing.assert_allclose(loaded, before, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", METHODS)
def test_frozen_before_fit(kind: str) -> None:
    """What is frozen before has no posterior."""
    model = network()
    model.layers[0].trainable = False
    posterior = METHODS[kind](model)
    assert posterior.sample(2).shape[1] == 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_laplace_of_other_weights(dtype: str) -> None:
    """A Laplace is of the weights that trained when it was made; `fit` refuses others."""
    model = network()
    posterior = Laplace(model, subset_of_weights="all", dtype=dtype)
    model.layers[0].trainable = False
    for call in (posterior.fit, posterior.update):
        with pytest.raises(ValueError, match=r"^model=.* has other trainable weights than it had"):
            call(X, Y)
    with pytest.raises(ValueError, match=r"^model=.* has other trainable weights than it had"):
        posterior.prior_mean = "current"


def test_other_weights_of_the_same_shapes() -> None:
    """Weights are known as themselves: two layers may be alike."""
    layers = [keras.layers.Dense(3), keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input((3,)), *layers, keras.layers.Dense(1)])
    model.compile("adam", Normal(0.5))
    layers[0].trainable = False
    posterior = Laplace(model, subset_of_weights="all").fit(X, Y)
    layers[0].trainable, layers[1].trainable = True, False
    for call in (posterior.fit, posterior.update):
        with pytest.raises(ValueError, match="has other trainable weights than it had"):
            call(X, Y)
