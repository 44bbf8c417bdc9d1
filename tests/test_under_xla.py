"""Each family compiled by XLA, against itself as a plain graph: same noise, same step."""

import keras
import numpy as np
import pytest

import tfbdl
from tfbdl import inference, layers, likelihoods, optimizers, posteriors

pytestmark = pytest.mark.xla

RNG = np.random.default_rng(0)
N = 12
TABLE = RNG.normal(size=(N, 4)).astype("float32")
IMAGES = RNG.normal(size=(N, 6, 6, 2)).astype("float32")
WORDS = RNG.integers(0, 7, (N, 5))
Y = RNG.normal(size=(N, 2)).astype("float32")

MODELS = {
    "estimators": (
        TABLE,
        lambda: [
            layers.BayesDense(3, "tanh", num_data=N, estimator=estimator, seed=i)
            for i, estimator in enumerate(
                ("reparameterization", "local_reparameterization", "flipout", "per_example")
            )
        ],
    ),
    "posteriors": (
        TABLE,
        lambda: [
            layers.BayesDense(3, "tanh", num_data=N, posterior=posterior, seed=i)
            for i, posterior in enumerate(
                (
                    posteriors.FullCovarianceNormal(),
                    posteriors.LowRankNormal(2),
                    posteriors.MatrixNormal(),
                    posteriors.Laplace(),
                    posteriors.Logistic(),
                )
            )
        ],
    ),
    "priors": (
        TABLE,
        lambda: [
            layers.BayesDense(3, "tanh", num_data=N, prior=prior, seed=i)
            for i, prior in enumerate(("laplace", "student_t", "horseshoe", "ard", "scale_mixture"))
        ],
    ),
    "dropout": (
        TABLE,
        lambda: [
            keras.layers.Dense(8, "tanh"),
            layers.MCDropout(0.3, seed=1),
            layers.MCGaussianDropout(0.3, seed=2),
            layers.ConcreteDropout(keras.layers.Dense(8), num_data=N, seed=3),
            layers.VariationalDropout(8, num_data=N, seed=4),
            layers.VariationalDropout(8, num_data=N, kl="kingma", seed=5),
        ],
    ),
    "images": (
        IMAGES,
        lambda: [
            layers.BayesConv2D(3, 3, num_data=N, seed=1),
            layers.BayesConv2DTranspose(2, 3, num_data=N, estimator="flipout", seed=2),
            keras.layers.Flatten(),
        ],
    ),
    "sequences": (
        WORDS,
        lambda: [
            layers.BayesEmbedding(7, 3, num_data=N, seed=1),
            layers.BayesLSTM(4, return_sequences=True, num_data=N, seed=2),
            layers.BayesGRU(4, num_data=N, seed=3),
        ],
    ),
}
OPTIMIZERS = {
    "SGLD": lambda: optimizers.SGLD(1e-3, num_data=N, prior=1.0, seed=1),
    "PreconditionedSGLD": lambda: optimizers.PreconditionedSGLD(1e-3, num_data=N, seed=1),
    "SGHMC": lambda: optimizers.SGHMC(1e-3, num_data=N, prior="laplace", seed=1),
    "PreconditionedSGHMC": lambda: optimizers.PreconditionedSGHMC(1e-3, num_data=N, seed=1),
}


def network(x, body):
    keras.utils.set_random_seed(0)
    dtype = "int32" if x.dtype.kind == "i" else "float32"
    model = keras.Sequential([keras.Input(x.shape[1:], dtype=dtype), *body()])
    model.add(layers.BayesDense(2, num_data=N, seed=9))
    model.compile(keras.optimizers.SGD(0.01), likelihoods.Normal(0.5))
    return model


def trained(model, x, jit_compile):
    tfbdl.train(model, x, Y, epochs=2, batch_size=N, jit_compile=jit_compile, verbose=0)
    return model


def same(a, b):
    for v, w in zip(a, b, strict=True):
        np.testing.assert_allclose(v, w, 2e-4, 2e-5)


@pytest.mark.parametrize("name", MODELS)
def test_two_steps(name):
    x, body = MODELS[name]
    one, other = (trained(network(x, body), x, jit) for jit in (True, False))
    same(one.get_weights(), other.get_weights())


@pytest.mark.parametrize("name", ["dropout", "images"])
def test_a_prediction(name):
    x, body = MODELS[name]
    model = network(x, body)
    drawn = [
        tfbdl.predict(model, x, 3, seed=1, jit_compile=jit, return_samples=True, verbose=0).samples
        for jit in (True, False)
    ]
    same(*drawn)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_two_steps_of_a_sampling_optimizer(name):
    weights = []
    for jit in (True, False):
        keras.utils.set_random_seed(0)
        hidden = keras.layers.Dense(3, "tanh")
        model = keras.Sequential([keras.Input((4,)), hidden, keras.layers.Dense(2)])
        model.compile(OPTIMIZERS[name](), "mse")
        weights.append(trained(model, TABLE, jit).get_weights())
    same(*weights)


def test_plain_fit_takes_its_noise_in_one_compiled_pass():
    """Which a posterior compiles on its own, inside of a graph that is not."""
    losses = []
    for fused in (True, False):
        model = network(TABLE, lambda: [layers.BayesDense(3, num_data=N, seed=1)])
        if not fused:
            for layer in model.layers:
                layer.kernel.fused_sample_and_kl = layer.kernel.sample_and_kl
                layer.bias.fused_sample_and_kl = layer.bias.sample_and_kl
        history = model.fit(TABLE, Y, batch_size=N, epochs=3, shuffle=False, verbose=0)
        losses.append(history.history["loss"])
    same(*losses)


def test_laplace():
    found = []
    for jit in (True, False):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        laplace = inference.Laplace(model, "regression", jit_compile=jit).fit(TABLE, Y)
        found.append([laplace.log_marginal_likelihood(), *laplace.function_moments(TABLE)])
    same(*found)
