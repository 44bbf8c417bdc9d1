"""Each method of inference on one small problem, fitted and asked, and what tests compare of it."""

import functools
import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl import priors
from tfbdl.inference import (
    HMC,
    MAP,
    MCMC,
    SGMCMC,
    SWAG,
    DeepEnsemble,
    Laplace,
    MeanFieldVI,
    Mixture,
    NeuralLinear,
)
from tfbdl.keras_private import own_variables, walk
from tfbdl.optimizers import IVON, SGHMC

RNG = np.random.default_rng(0)
N = 40
X = RNG.normal(size=(N, 2)).astype("float32")
Y = (X[:, :1] - X[:, 1:] ** 2 + 0.3 * RNG.normal(size=(N, 1))).astype("float32")
S = 6


def compiled(model: Any, optimizer: Any = None) -> Any:
    """Alike in all calls, statistics of its normalisation too."""
    for number, v in enumerate(model.weights):
        if v.dtype == "float32":
            noise = np.random.default_rng(number).normal(size=v.shape)
            v.assign(np.abs(noise) if v.name.endswith("variance") else 0.7 * noise)
    model.compile(optimizer or keras.optimizers.SGD(1e-3), tfbdl.likelihoods.Normal(0.3))
    return model


def network(optimizer: Any = None) -> Any:
    stack = [
        keras.layers.Dense(4, "tanh", name="first"),
        keras.layers.Dropout(0.2, seed=1),
        keras.layers.Dense(1, name="last"),
    ]
    model = keras.Sequential([keras.Input((2,)), *stack], name="net")
    return compiled(model, optimizer)


def normalised(optimizer: Any = None) -> Any:
    stack = [
        keras.layers.Dense(4, "tanh", name="first"),
        keras.layers.BatchNormalization(name="normal"),
        keras.layers.Dense(1, name="last"),
    ]
    return compiled(keras.Sequential([keras.Input((2,)), *stack], name="net"), optimizer)


def twin(model: Any) -> Any:
    """One like it; Python's random state is as it was, from which Keras takes seeds."""
    state = random.getstate()
    other = compiled(keras.models.clone_model(model))
    random.setstate(state)
    return other


def nested(optimizer: Any = None) -> Any:
    """Its parts have names that Keras forgets in files."""
    inner = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(4, "tanh", name="first")], name="inner"
    )
    stack = [inner, keras.layers.Dense(1, name="last")]
    return compiled(keras.Sequential([keras.Input((2,)), *stack], name="net"), optimizer)


def two_inputs(structure: Any) -> Any:
    """Takes the columns of X apart, as a dict or a tuple."""
    inputs = {"a": keras.Input((1,), name="a"), "b": keras.Input((1,), name="b")}
    joined = keras.layers.Concatenate()(list(inputs.values()))
    outputs = keras.layers.Dense(1, name="last")(
        keras.layers.Dense(4, "tanh", name="first")(joined)
    )
    return compiled(keras.Model(inputs if structure is dict else tuple(inputs.values()), outputs))


def sampler() -> Any:
    return SGHMC(1e-3, num_data=N, prior=1.0, seed=1)


def ivon() -> Any:
    return IVON(0.1, num_data=N, seed=1)


class Way(NamedTuple):
    """How a method is made of a network, and fitted to data."""

    make: Any
    fit: Mapping[str, Any] = MappingProxyType({})
    optimizer: Any = None

    @property
    def trains(self) -> Any:
        return "epochs" in self.fit

    def made(self, build: Any = network) -> Any:
        return self.make(build(self.optimizer and self.optimizer()))


TRAINED = {"epochs": 3, "batch_size": 20, "verbose": 0}
CHAINS = {"num_warmup": 10, "num_samples": S, "num_chains": 2, "jit_compile": False}
OF_ALL = {"subset_of_weights": "all", "jit_compile": False}
METHODS = {
    "laplace": Way(lambda m: Laplace(m, prior_precision=2.0)),
    "laplace_full": Way(
        lambda m: Laplace(m, **OF_ALL, hessian_structure="full", pred_type="nn", sigma_noise=0.5)
    ),
    "laplace_lowrank": Way(
        lambda m: Laplace(
            m,
            tfbdl.likelihoods.Normal(0.4),
            **OF_ALL,
            hessian_structure="lowrank",
            rank=17,
            dtype="float64",
        )
    ),
    "laplace_diag": Way(
        lambda m: Laplace(
            m,
            subset_of_weights=["last"],
            hessian_structure="diag",
            prior_precision=np.full(5, 3.0),
            jit_compile=False,
        )
    ),
    "laplace_hessian": Way(
        lambda m: Laplace(
            m, **OF_ALL, hessian_structure="full", curvature="hessian", prior_precision=5000.0
        )
    ),
    "neural_linear": Way(NeuralLinear),
    "neural_linear_known": Way(
        lambda m: NeuralLinear(m, sigma_noise=0.3, prior_precision=[1.0, 4.0], dtype="float64")
    ),
    "map": Way(lambda m: MAP(m, 1.0, max_iterations=3000, jit_compile=False)),
    "map_adam": Way(
        lambda m: MAP(
            m,
            {"first": "laplace", "*": priors.StudentT()},
            optimizer=keras.optimizers.Adam(0.03),
            tolerance=1e4,
            dtype="float64",
            jit_compile=False,
        )
    ),
    # In float64: in float32, another order of sums may let a chain refuse what it had accepted.
    "mcmc": Way(
        lambda m: MCMC(m, 1.0, kernel=HMC(step_size=0.01), dtype="float64", **CHAINS),
        {"verbose": 0},
    ),
    "mcmc_mala": Way(
        lambda m: MCMC(
            m,
            {"first": priors.Normal(0.5), "*": 1.0},
            kernel="mala",
            initial="model",
            dtype="float64",
            **CHAINS,
        ),
        {"verbose": 0},
    ),
    "swag": Way(lambda m: SWAG(m, rank=2, jit_compile=False), TRAINED),
    "deep_ensemble": Way(lambda m: DeepEnsemble(m, 3, jit_compile=False), TRAINED),
    "deep_ensemble_of_function": Way(
        lambda m: DeepEnsemble(network, 2, seed=1, jit_compile=False), TRAINED
    ),
    "sgmcmc": Way(lambda m: SGMCMC(m, jit_compile=False), TRAINED, sampler),
    "mixture": Way(
        lambda m: Mixture([SWAG(one, rank=2, jit_compile=False) for one in (m, twin(m))]), TRAINED
    ),
    "mean_field_vi": Way(lambda m: MeanFieldVI(m, jit_compile=False), TRAINED, ivon),
}
TRAIN_ON = ("swag", "sgmcmc", "mean_field_vi", "mixture")
"""Methods whose `fit` trains a network on from where it is."""
ALL = parameterized.parameters(*METHODS)
OF_DATA = [name for name, way in METHODS.items() if not way.trains]
"""Methods that go through the data as they are, in no order."""


@functools.cache
def fitted(name: str) -> Any:
    """Each method is fitted once for all tests that only ask."""
    return METHODS[name].made().fit(X, Y, **METHODS[name].fit)


def asked(posterior: Any, x: Any = X, seed: int = 3) -> Any:
    return tfbdl.predict(posterior, x, S, seed=seed, verbose=0)


def networks_in(posterior: Any) -> Any:
    """The networks that it was made of, or one of those that it has made."""
    if isinstance(posterior, Mixture):
        return [part.model for part in posterior.methods]
    return [posterior.network() if isinstance(posterior, DeepEnsemble) else posterior.model]


def state_of(model: Any) -> Any:
    """All of a network that a method might touch, and the generators of numbers around it."""
    inside = list(walk(model))
    variables = [v for layer in inside for v in own_variables(layer)]
    return {
        "variables": [v.numpy() for v in variables],
        "regularizers": [v.regularizer for v in variables if hasattr(v, "regularizer")],
        "trainable": [v.trainable for v in variables],
        "settings": [getattr(layer, "rate", None) for layer in inside],
        "losses": len(model.losses),
        "functions": [model.train_function, model.test_function, model.predict_function],
        "loss": model.loss,
        "optimizer": model.optimizer,
        "of the optimizer": [v.numpy() for v in model.optimizer.variables],
        "random": random.getstate(),
        "numpy": [*map(np.copy, np.random.get_state()[1:3])],
        "policy": keras.config.dtype_policy().name,
    }


class MethodTestCase(tf.test.TestCase, parameterized.TestCase):
    """What tests of all methods compare."""

    def assert_same_prediction(self, a: Any, b: Any) -> None:
        for field in ("mean", "aleatoric_variance", "epistemic_variance", "expected_entropy"):
            self.assertAllClose(getattr(a, field), getattr(b, field), 1e-5, 1e-6, msg=field)

    def assert_same_state(self, before: Any, after: Any, but: Any = ()) -> None:
        for name, expected in before.items():
            if name not in but:
                with self.subTest(name):
                    np.testing.assert_equal(after[name], expected)

    def assert_same_summary(self, posterior: Any, other: Any) -> None:
        """But for the first line, which says how it was made."""
        actual, expected = (str(p.summary()).splitlines()[1:] for p in (other, posterior))
        self.assertEqual(actual, expected)
