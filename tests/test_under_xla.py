"""What XLA compiles by default, against the same as a plain graph: same noise, same step.

Each layer, prior and posterior is held against itself compiled in its own tests.
"""

from typing import Any

import keras
import numpy as np
import pytest

import tfbdl
from tfbdl import inference, layers, likelihoods, optimizers

pytestmark = pytest.mark.xla

RNG = np.random.default_rng(0)
N = 12
TABLE = RNG.normal(size=(N, 4)).astype("float32")
Y = RNG.normal(size=(N, 2)).astype("float32")

MODELS = {
    "weights": lambda: [
        layers.BayesDense(3, "tanh", num_data=N, prior="laplace", seed=1),
        layers.BayesDense(3, num_data=N, estimator="local_reparameterization", seed=2),
    ],
    "dropout": lambda: [
        layers.MCDropout(0.3, seed=1),
        layers.ConcreteDropout(keras.layers.Dense(8), num_data=N, seed=3),
    ],
}
OPTIMIZERS = {
    "SGLD": lambda: optimizers.SGLD(1e-3, num_data=N, prior=1.0, seed=1),
    "PreconditionedSGLD": lambda: optimizers.PreconditionedSGLD(1e-3, num_data=N, seed=1),
    "SGHMC": lambda: optimizers.SGHMC(1e-3, num_data=N, prior="laplace", seed=1),
    "PreconditionedSGHMC": lambda: optimizers.PreconditionedSGHMC(1e-3, num_data=N, seed=1),
}


def network(body: Any) -> Any:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), *body()])
    model.add(layers.BayesDense(2, num_data=N, seed=9))
    model.compile(keras.optimizers.SGD(0.01), likelihoods.Normal(0.5))
    return model


def trained(model: Any, jit_compile: Any) -> Any:
    tfbdl.train(model, TABLE, Y, epochs=2, batch_size=N, jit_compile=jit_compile, verbose=0)
    return model


def same(a: Any, b: Any) -> None:
    for v, w in zip(a, b, strict=True):
        np.testing.assert_allclose(v, w, 2e-4, 2e-5)


@pytest.mark.parametrize("name", MODELS)
def test_two_steps(name: str) -> None:
    one, other = (trained(network(MODELS[name]), jit) for jit in (True, False))
    same(one.get_weights(), other.get_weights())


def test_a_prediction() -> None:
    model = network(MODELS["dropout"])
    drawn = [
        tfbdl.predict(model, TABLE, 3, seed=1, jit_compile=jit, return_samples=True, verbose=0)
        for jit in (True, False)
    ]
    same(*(prediction.outputs for prediction in drawn))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_two_steps_of_a_sampling_optimizer(name: str) -> None:
    weights = []
    for jit in (True, False):
        keras.utils.set_random_seed(0)
        hidden = keras.layers.Dense(3, "tanh")
        model = keras.Sequential([keras.Input((4,)), hidden, keras.layers.Dense(2)])
        model.compile(OPTIMIZERS[name](), "mse")
        weights.append(trained(model, jit).get_weights())
    same(*weights)


def test_plain_fit_takes_its_noise_in_one_compiled_pass() -> None:
    """A posterior compiles that pass on its own, inside of a graph that is not compiled."""
    losses = []
    for fused in (True, False):
        model = network(lambda: [layers.BayesDense(3, num_data=N, seed=1)])
        if not fused:
            for layer in model.layers:
                layer.kernel.fused_sample_and_kl = layer.kernel.sample_and_kl
                layer.bias.fused_sample_and_kl = layer.bias.sample_and_kl
        history = model.fit(TABLE, Y, batch_size=N, epochs=3, shuffle=False, verbose=0)
        losses.append(history.history["loss"])
    same(*losses)


def test_laplace() -> None:
    answers = []
    for jit in (True, False):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        model.compile(loss=likelihoods.Normal(0.5))
        laplace = inference.Laplace(model, jit_compile=jit).fit(TABLE, Y)
        answers.append([laplace.log_marginal_likelihood(), *laplace.function_moments(TABLE)])
    same(*answers)
