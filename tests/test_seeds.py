"""Whatever takes a seed takes all 64 bits of it: seeds that differ give results that differ."""

import functools
import inspect
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl import checking, data, inference, layers, likelihoods, models, optimizers, priors
from tfbdl.draws import make_draw
from tfbdl.inference.mcmc.kernels.base import Kernel

RNG = np.random.default_rng(0)
N, D = 12, 3
X = RNG.normal(size=(N, D)).astype("float32")
Y = RNG.normal(size=(N, 1)).astype("float32")
GREY = np.full((N, 2, 3), 0.5, "float32")
SEEDS = (3, 3 + 2**31, 3 + 2**32, -3)


def regression() -> Any:
    """Alike in all calls."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((D,)), keras.layers.Dense(4), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), likelihoods.Normal(0.5))
    return model


@functools.cache
def bayesian() -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((D,)), layers.BayesDense(1, num_data=N, seed=1)])
    model.compile("sgd", likelihoods.Normal(0.5))
    return model


@functools.cache
def drawn_functions() -> Any:
    return tfbdl.predict(bayesian(), X, 3, seed=0, return_samples=True, verbose=0)


@functools.cache
def vae() -> Any:
    model = models.VAE(2, (4,), seed=1)
    model.build((None, 2, 3))
    return model


def trained(seed: int) -> Any:
    model = regression()
    tfbdl.train(model, X, Y, epochs=1, batch_size=4, seed=seed, verbose=0)
    return model.get_weights()[0]


def exported(seed: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        tfbdl.export(bayesian(), Path(folder) / "1", 3, seed=seed)
        loaded = tf.saved_model.load(f"{folder}/1")
        return loaded.signatures["serving_default"](tf.constant(X))["mean"]


def in_training(make: Any, x: Any) -> Any:
    """What a layer of weights with means that are equal in all calls gives in training."""

    def output(seed: int) -> Any:
        keras.utils.set_random_seed(1)
        return make(seed=seed)(tf.ones(x), training=True)

    return output


def drawn_layer(layer: Any) -> Any:
    return lambda x, training: layer(x, draw=make_draw(0, 0))


def stepped(make: Any) -> Any:
    def weights(seed: int) -> Any:
        model = regression()
        optimizer = make(0.1, num_data=N, seed=seed)
        optimizer.build(model.trainable_variables)
        optimizer.apply([tf.zeros(v.shape) for v in model.trainable_variables])
        return model.get_weights()[0]

    return weights


def chains(seed: int = 0) -> Any:
    kernel = inference.Langevin(step_size=0.01)
    sizes = {"num_warmup": 0, "num_samples": 8, "num_chains": 1}
    return inference.MCMC(regression(), 1.0, kernel=kernel, seed=seed, **sizes).fit(X, Y, verbose=0)


def mode(seed: int = 0) -> Any:
    """Where the search starts, which ends it at once."""
    search = inference.MAP(regression(), 1.0, initial="prior", tolerance=1e9, seed=seed)
    return search.fit(X, Y)


def deep_ensemble(seed: int = 0) -> Any:
    ensemble = inference.DeepEnsemble(regression, 1, seed=seed)
    return ensemble.fit(X, Y, epochs=1, batch_size=4, verbose=0)


def swag(seed: int = 0) -> Any:
    return inference.SWAG(regression(), seed=seed).fit(X, Y, epochs=3, batch_size=4, verbose=0)


def sgmcmc(seed: int = 0) -> Any:
    model = regression()
    model.compile(optimizers.SGLD(0.01, num_data=N, seed=1), model.loss)
    return inference.SGMCMC(model, seed=seed).fit(X, Y, epochs=8, batch_size=4, verbose=0)


def mean_field_vi(seed: int = 0) -> Any:
    model = regression()
    model.compile(optimizers.IVON(0.1, num_data=N, seed=1), model.loss)
    return inference.MeanFieldVI(model, seed=seed).fit(X, Y, epochs=2, batch_size=4, verbose=0)


def mean_field_of_noise(seed: int) -> Any:
    model = regression()
    model.compile(optimizers.IVON(0.1, num_data=N, seed=seed), model.loss)
    tfbdl.train(model, X, Y, epochs=1, batch_size=4, verbose=0)
    return model.get_weights()[0]


def laplace(**settings: Any) -> Any:
    return inference.Laplace(regression(), **settings).fit(X, Y)


def neural_linear() -> Any:
    return inference.NeuralLinear(regression(), sigma_noise=0.5).fit(X, Y)


def sngp(seed: int) -> Any:
    model = tfbdl.to_sngp(regression(), num_data=N, num_features=8, seed=seed)
    return tfbdl.predict(model, X, 2, seed=0, verbose=0).mean


POSTERIORS = {
    "DeepEnsemble": functools.cache(deep_ensemble),
    "Laplace": functools.cache(lambda: laplace(pred_type="nn")),
    "MAP": functools.cache(mode),
    "MCMC": functools.cache(chains),
    "MeanFieldVI": functools.cache(mean_field_vi),
    "Mixture": functools.cache(lambda: inference.Mixture([swag(), swag(1)])),
    "NeuralLinear": functools.cache(neural_linear),
    "SGMCMC": functools.cache(sgmcmc),
    "SWAG": functools.cache(swag),
}
glm = functools.cache(laplace)
FIXED = {
    f"{kind}.{call}"
    for kind in ("DeepEnsemble", "MAP")
    for call in ("sample", "ensemble", "functions")
} | {"MeanFieldVI.functions"}
"""Calls that draw nothing, and take a seed because other methods do."""


def drawn(posterior: Any, call: Any) -> Any:
    """What a call of a posterior gives, by its seed."""

    def of_seed(seed: int) -> Any:
        actual = getattr(posterior(), call)(8, seed=seed)
        return actual if call == "sample" else getattr(actual, "members", None)

    return of_seed


def kept(posterior: Any) -> Any:
    """Functions that predictions keep, by the seed."""

    def of_seed(seed: int) -> Any:
        return tfbdl.predict(posterior(), X, 3, seed=seed, return_samples=True, verbose=0).outputs

    return of_seed


DENSE = {
    "BayesDense": ((2, D), lambda **k: layers.BayesDense(2, num_data=N, **k)),
    "BayesBatchEnsembleWrapper": (
        (2, D),
        lambda **k: layers.BayesBatchEnsembleWrapper(keras.layers.Dense(2), 2, num_data=N, **k),
    ),
    "BayesEinsumDense": (
        (2, D),
        lambda **k: layers.BayesEinsumDense("ab,bc->ac", 2, num_data=N, **k),
    ),
    "BayesEmbedding": ((2,), lambda **k: layers.BayesEmbedding(5, 2, num_data=N, **k)),
    "BayesWrapper": (
        (2, D),
        lambda **k: layers.BayesWrapper(keras.layers.Dense(2), num_data=N, **k),
    ),
    "HeteroscedasticLogits": ((2, 6), lambda **k: layers.HeteroscedasticLogits(1, **k)),
    "BayesGRU": ((2, 4, D), lambda **k: layers.BayesGRU(2, num_data=N, **k)),
    "BayesLSTM": ((2, 4, D), lambda **k: layers.BayesLSTM(2, num_data=N, **k)),
    "ConcreteDropout": (
        (9, D),
        lambda **k: layers.ConcreteDropout(
            keras.layers.Dense(2), num_data=N, initial_rate=0.5, **k
        ),
    ),
    "MCDropout": ((9, 9), lambda **k: layers.MCDropout(0.5, **k)),
    "MCGaussianDropout": ((2, D), lambda **k: layers.MCGaussianDropout(0.5, **k)),
    "RandomFeatureGP": (
        (2, D),
        lambda **k: drawn_layer(layers.RandomFeatureGP(2, num_data=N, num_features=8, **k)),
    ),
    "VariationalDropout": ((2, D), lambda **k: layers.VariationalDropout(2, num_data=N, **k)),
    "VariationalLastLayer": (
        (2, D),
        lambda **k: drawn_layer(layers.VariationalLastLayer(2, num_data=N, **k)),
    ),
    "VAE": ((N, 2, 3), lambda **k: models.VAE(2, (4,), **k)),
}
CONVOLUTIONS = {
    f"BayesConv{n}D{kind}": (
        (2, *n * (4,), 2),
        lambda n=n, kind=kind, **k: getattr(layers, f"BayesConv{n}D{kind}")(2, 3, num_data=N, **k),
    )
    for n, kind in itertools.product((1, 2, 3), ("", "Transpose"))
}
SAMPLERS = ("SGLD", "SGHMC", "PreconditionedSGLD", "PreconditionedSGHMC")

CASES = {
    **{name: in_training(make, x) for name, (x, make) in (DENSE | CONVOLUTIONS).items()},
    **{name: stepped(getattr(optimizers, name)) for name in SAMPLERS},
    "train": trained,
    "predict": lambda seed: tfbdl.predict(bayesian(), X, 3, seed=seed, verbose=0).mean,
    "predict, linearised": kept(glm),
    "predict, last layer": kept(POSTERIORS["NeuralLinear"]),
    "to_sngp": sngp,
    "elbo": lambda seed: tfbdl.elbo(bayesian(), X, Y, 3, seed=seed).log_likelihood,
    "log_predictive_density": lambda seed: tfbdl.log_predictive_density(
        bayesian(), X, Y, 3, seed=seed
    ),
    "export": exported,
    "VAE.elbo": lambda seed: vae().elbo(GREY, 2, seed=seed),
    "VAE.log_likelihood": lambda seed: vae().log_likelihood(GREY, 2, seed=seed),
    "VAE.sample": lambda seed: vae().sample(N, mean=True, seed=seed),
    "prior_predictive": lambda seed: checking.prior_predictive(bayesian(), X, 3, seed=seed).mean,
    "replicate": lambda seed: checking.replicate(drawn_functions(), seed=seed),
    "to_arviz": lambda seed: checking.to_arviz(drawn_functions(), Y, seed=seed)[
        "posterior_predictive"
    ]["y"],
    "MCMC": lambda seed: chains(seed).theta,
    "MAP": lambda seed: mode(seed).theta,
    "DeepEnsemble": lambda seed: deep_ensemble(seed).sample(),
    "SWAG": lambda seed: swag(seed).mean,
    "SGMCMC": lambda seed: sgmcmc(seed).sample(),
    "MeanFieldVI": lambda seed: mean_field_vi(seed).sample(),
    "IVON": mean_field_of_noise,
    **{
        f"{kind}.{call}": drawn(posterior, call)
        for kind, posterior in POSTERIORS.items()
        for call in ("sample", "ensemble", "functions")
    },
    "binarize": lambda seed: data.binarize(GREY, seed),
    "noise": lambda seed: data.noise(2, seed),
    "corrupt": lambda seed: data.corrupt(GREY[..., None], "gaussian_noise", 5, seed=seed),
    "gal_linear": lambda seed: data.gal_linear(5, seed)[1],
    "blundell_curve": lambda seed: data.blundell_curve(5, seed)[1],
    "gapped_sine": lambda seed: data.gapped_sine(5, seed)[1],
}


def takes_seed(function: Any) -> Any:
    return "seed" in inspect.signature(function).parameters


def of_class(kind: Any) -> Any:
    """The class itself, if a constructor of it takes a seed, and its public methods that do."""
    own = [c for c in kind.__mro__ if c.__module__.startswith("tfbdl") and "__init__" in vars(c)]
    names = {""} if any(takes_seed(c.__init__) for c in own) else set()
    methods = inspect.getmembers(kind, inspect.isfunction)
    return names | {
        name
        for name, method in methods
        if name[0] != "_" and method.__module__.startswith("tfbdl") and takes_seed(method)
    }


def public() -> Iterator[Any]:
    """All that takes a seed, by its name."""
    for room in (tfbdl, checking, data, inference, layers, models, optimizers, priors):
        for name in room.__all__:
            value = getattr(room, name)
            if inspect.isfunction(value) and takes_seed(value):
                yield name
            elif inspect.isclass(value) and value is not inference.Method:
                if issubclass(value, Kernel):  # of chains: `MCMC` makes the seed of their steps
                    continue
                yield from (f"{name}.{method}".rstrip(".") for method in of_class(value))


class SeedsTest(tf.test.TestCase, parameterized.TestCase):
    def test_all_that_takes_a_seed_is_tried(self) -> None:
        self.assertEqual(set(public()), {name.split(",")[0] for name in CASES})

    @parameterized.parameters(*(name for name in CASES if name not in FIXED))
    def test_all_bits_count(self, name: str) -> None:
        """Or the seed is refused."""
        actual = {}
        for seed in SEEDS:
            try:
                actual[seed] = np.asarray(CASES[name](seed))
            except ValueError as error:
                self.assertRegex(str(error), "^seed=|^expected non-negative integer$")
        self.assertAllEqual(actual[SEEDS[0]], CASES[name](SEEDS[0]))
        for a, b in itertools.combinations(actual, 2):
            self.assertNotAllClose(actual[a], actual[b], msg=f"seeds {a} and {b} of {name}")

    @parameterized.parameters(*(name for name in CASES if not hasattr(data, name)))
    def test_nothing_else_is_a_seed(self, name: str) -> None:
        for seed in (2**64, -(2**63) - 1, 0.5, "1"):
            with self.assertRaisesRegex(ValueError, "^seed="):
                CASES[name](seed)


if __name__ == "__main__":
    tf.test.main()
