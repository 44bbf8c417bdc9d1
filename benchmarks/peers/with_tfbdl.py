"""This package."""

from __future__ import annotations

import os

os.environ.setdefault("TFBDL_QUIET", "1")

import tfbdl  # isort: skip  (before anything that imports TensorFlow)

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
import work

from benchmarks.compiled_chains import compiled_chains
from benchmarks.compiled_epochs import compiled_epoch
from benchmarks.plain_networks import resnet20
from tfbdl import layers
from tfbdl.inference import HMC, MAMS, MCLMC, NUTS, Laplace, LogPosterior
from tfbdl.inference.mcmc.kernels import Kernel
from tfbdl.inference.mcmc.stepping import Draws
from tfbdl.likelihoods import Categorical, Expected, Normal
from tfbdl.optimizers import IVON, SGHMC, SGLD
from tfbdl.priors import GammaScale
from tutorials.cifar10.problem import network as cifar10_network

Round = Callable[[], dict[str, float]]
Layer = keras.layers.Layer


def steps(model: keras.Model, batch_size: int, *arrays: np.ndarray) -> Round:
    """A round of the loop's compiled steps."""
    epoch = compiled_epoch(model, *arrays, batch_size=batch_size)

    def run() -> dict[str, float]:
        epoch()
        return {"units": len(arrays[0]) // batch_size}

    return run


def epoch(run: Round) -> Round:
    """The same round, as one."""
    return lambda: {**run(), "units": 1}


def classifier(stack: list[Layer], shape: tuple[int, ...] = (784,), optimizer: Any = None) -> Any:
    """Layers behind an input, for the package's likelihood and Adam."""
    model = keras.Sequential([keras.Input(shape), *stack])
    adam = keras.optimizers.Adam(work.LEARNING_RATE)
    model.compile(optimizer or adam, Categorical())
    return model


def dense(sizes: tuple[int, ...], layer: Callable[..., Layer]) -> list[Layer]:
    """ReLU layers, and one of logits."""
    return [*(layer(units, "relu") for units in sizes[1:-1]), layer(sizes[-1])]


def bbb(estimator: str, sizes: tuple[int, ...] = work.NETWORK, batch: int = work.BATCH) -> Round:
    """Steps of a network whose weights are all random."""
    n = work.STEPS * batch
    layer = partial(layers.BayesDense, num_data=n, estimator=estimator)
    return steps(classifier(dense(sizes, layer)), batch, *work.images(n))


bbb_local = partial(bbb, "local_reparameterization")
bbb_flipout = partial(bbb, "flipout")
bbb_one = partial(bbb, "reparameterization")
bbb_wide = partial(bbb, "reparameterization", work.WIDE, work.WIDE_BATCH)


def vae(num_data: int = 1000) -> Round:
    """An epoch of the tutorial's."""
    model = tfbdl.models.VAE(seed=0)
    model.compile(keras.optimizers.Adam(work.LEARNING_RATE))
    return epoch(steps(model, work.BATCH, work.images(num_data)[0]))


vae_full = partial(vae, 60_000)


def concrete() -> Round:
    """Steps of dropout with learned rates around each layer."""
    n = work.STEPS * work.BATCH
    stack = [
        layers.ConcreteDropout(layer, num_data=n)
        for layer in dense(work.NETWORK, keras.layers.Dense)
    ]
    return steps(classifier(stack), work.BATCH, *work.images(n))


def mc_dropout() -> Round:
    """The moments of the class probabilities."""
    hidden, second, last = dense(work.NETWORK, keras.layers.Dense)
    model = classifier([hidden, layers.MCDropout(0.5), second, layers.MCDropout(0.5), last])
    x = work.images(1000)[0]

    def run() -> dict[str, float]:
        tfbdl.predict(model, x, work.DRAWS, seed=0, verbose=0)
        return {"units": 1}

    return run


def sampler(optimizer: Any) -> Round:
    """Steps of a chain by stochastic gradients."""
    n = work.STEPS * work.BATCH
    made = optimizer(1e-3, num_data=n, prior=1.0)
    stack = dense(work.NETWORK, keras.layers.Dense)
    return steps(classifier(stack, optimizer=made), work.BATCH, *work.images(n))


def sghmc_resnet() -> Round:
    """Steps of the chain on CIFAR-10 that the tutorial compares with HMC's."""
    n = work.CHAIN_STEPS * work.CHAIN_BATCH
    model = cifar10_network(5.0)
    model.compile(SGHMC(1e-3, num_data=n), Categorical())
    return steps(model, work.CHAIN_BATCH, *work.photographs(n))


sgld = partial(sampler, SGLD)
sghmc = partial(sampler, SGHMC)
ivon = partial(sampler, IVON)


def ivon_resnet() -> Round:
    """Steps on all weights, those of the normalisations too."""
    n = work.STEPS * work.BATCH
    model = resnet20().model
    model.compile(IVON(1e-3, num_data=n, prior=1.0), Categorical())
    return steps(model, work.BATCH, *work.photographs(n))


def vbll() -> Round:
    """Steps of a last layer whose weights into each output have a full covariance."""
    n = work.STEPS * work.BATCH
    *hidden, _ = dense(work.NETWORK, keras.layers.Dense)
    last = layers.VariationalLastLayer(work.NETWORK[-1], num_data=n, use_bias=False)
    model = keras.Sequential([keras.Input((work.NETWORK[0],)), *hidden, last])
    model.compile(keras.optimizers.Adam(work.LEARNING_RATE), Expected(Categorical()))
    return steps(model, work.BATCH, *work.images(n))


def batch_ensemble() -> Round:
    """Steps of all members on each example."""
    model = classifier(dense(work.NETWORK, keras.layers.Dense))
    ensemble = tfbdl.to_batch_ensemble(model, work.MEMBERS)
    return steps(ensemble, work.BATCH, *work.images(work.STEPS * work.BATCH))


def posterior(name: str, x: np.ndarray, y: np.ndarray) -> LogPosterior:
    """One of `work.POSTERIORS`; of a regression with the noise among the parameters."""
    sizes, activation, use_bias = work.POSTERIORS[name]
    *hidden, last = (keras.layers.Dense(n, use_bias=use_bias) for n in sizes[1:])
    for layer in hidden:
        layer.activation = keras.activations.get(activation)
    stack, prior = [keras.Input(sizes[:1]), *hidden, last], {"*": 1.0}
    if np.issubdtype(y.dtype, np.integer):
        return LogPosterior(keras.Sequential(stack), prior, x, y, likelihood=Categorical())
    noise = layers.LearnedScale()
    prior[noise.name] = GammaScale()
    network = keras.Sequential([*stack, noise])
    return LogPosterior(network, prior, x, y, likelihood=Normal("predicted"))


def chain(
    name: str,
    data: tuple[np.ndarray, np.ndarray],
    num_samples: int,
    kernel: Kernel,
    thinning: int = 1,
) -> Round:
    """A chain with fixed steps."""
    target = posterior(name, *data)
    theta = work.start(target.size)[np.newaxis]
    return going_on(compiled_chains(target, kernel, theta, num_samples, thinning))


def going_on(sample: Callable[[], Draws]) -> Round:
    """Rounds of chains; their samples have shape (S, C, D)."""

    def run() -> dict[str, Any]:
        draws = sample()
        return {"units": float(np.sum(draws.num_gradients)), "samples": draws.theta}

    return run


chain_46 = partial(chain, "curve", work.curve(), work.SAMPLES_46)
chain_small = partial(chain, "images", work.images(1000), work.SAMPLES_SMALL)


def trajectories(step_size: float, num_steps: int, kernel: type[HMC] = HMC) -> HMC:
    """Trajectories of that many steps each."""
    return kernel(step_size=step_size, trajectory_length=(num_steps - 0.5) * step_size, jitter=0.0)


hmc_46 = partial(chain_46, trajectories(work.STEP_46, work.TRAJECTORY_46))
nuts_46 = partial(chain_46, NUTS(max_tree_depth=work.DEPTH_46, step_size=work.STEP_46))
mams_46 = partial(chain_46, trajectories(work.MAMS_46, work.ISOKINETIC_46, MAMS))
mclmc_46 = partial(
    chain_46,
    MCLMC(step_size=work.MCLMC_46, decoherence_length=work.DECOHERENCE_46),
    work.ISOKINETIC_46,
)
hmc_small = partial(chain_small, trajectories(work.STEP_SMALL, work.TRAJECTORY_SMALL))
nuts_small = partial(chain_small, NUTS(max_tree_depth=work.DEPTH_SMALL, step_size=work.STEP_SMALL))
mclmc_small = partial(
    chain_small,
    MCLMC(step_size=work.MCLMC_SMALL, decoherence_length=work.DECOHERENCE_SMALL),
    work.ISOKINETIC_SMALL,
)


KERNELS: dict[str, Kernel] = {
    "nuts": NUTS(),
    "nuts_diagonal": NUTS(mass_matrix="diagonal"),
    "mams": MAMS(),
    "mams_diagonal": MAMS(mass_matrix="diagonal"),
    "mclmc": MCLMC(),
    "mclmc_diagonal": MCLMC(mass_matrix="diagonal"),
}
"""Kernels whose effective samples are counted, by the names that files of settings have."""


def length_of(kernel: Kernel) -> float:
    """The length of a kernel's trajectories, or over which it forgets; 0 of others."""
    names = ("trajectory_length", "decoherence_length")
    return next((getattr(kernel, name) for name in names if hasattr(kernel, name)), 0.0)


def chains(path: str) -> Round:
    """Chains that go on from where the file of their settings says."""
    with np.load(path) as given:
        settings = dict(given)
    name, kernel = str(settings["name"]), str(settings["kernel"])
    target = posterior(name, settings["x"], settings["y"])
    sample = compiled_chains(
        target,
        KERNELS[kernel].for_priors(target.priors),
        settings["theta"],
        work.samples_a_round(kernel),
        work.THINNING.get(kernel, 1),
        tuned=(settings["step_size"], settings["scale"]),
    )
    return going_on(sample)


def fitted(subset: str, structure: str) -> tuple[Laplace, np.ndarray, np.ndarray]:
    """Laplace for a network with random weights."""
    x, y = work.images(2000)
    model = classifier(dense(work.NETWORK, keras.layers.Dense))
    return Laplace(model, subset_of_weights=subset, hessian_structure=structure), x, y


def laplace(subset: str, structure: str) -> Round:
    """The curvature of the data."""
    posterior, x, y = fitted(subset, structure)

    def run() -> dict[str, float]:
        posterior.fit(x, y)
        return {"units": 1}

    return run


laplace_kron = partial(laplace, "all", "kron")
laplace_diag = partial(laplace, "all", "diag")
laplace_last = partial(laplace, "last_layer", "full")


def glm(subset: str, structure: str) -> Round:
    """Class probabilities of the linearised network, by the probit approximation."""
    posterior, x, y = fitted(subset, structure)
    posterior.fit(x, y)

    def run() -> dict[str, float]:
        tfbdl.predict(posterior, x[:200], verbose=0)
        return {"units": 1}

    return run


glm_kron = partial(glm, "all", "kron")
glm_diag = partial(glm, "all", "diag")
glm_last = partial(glm, "last_layer", "full")


def lenet() -> Round:
    """Steps of two convolutions, pooled, and three dense layers."""
    n = work.STEPS * work.BATCH
    x, y = work.images(n)
    stack = [
        layers.BayesConv2D(6, 5, padding="same", activation="relu", num_data=n),
        keras.layers.MaxPooling2D(),
        layers.BayesConv2D(16, 5, activation="relu", num_data=n),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        *dense((400, 120, 84, 10), partial(layers.BayesDense, num_data=n)),
    ]
    return steps(classifier(stack, (28, 28, 1)), work.BATCH, x.reshape(n, 28, 28, 1), y)


def lstm() -> Round:
    """Steps of an LSTM that reads images row by row."""
    n = work.STEPS * work.BATCH
    x, y = work.images(n)
    stack = [layers.BayesLSTM(100, num_data=n), layers.BayesDense(10, num_data=n)]
    return steps(classifier(stack, (28, 28)), work.BATCH, x.reshape(n, 28, 28), y)
