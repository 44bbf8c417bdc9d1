"""What holds for every method of inference: one way to fit, to ask, to save."""

import contextlib
import copy
import functools
import inspect
import pickle
import random
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl import inference, layers, priors
from tfbdl.flat_model import FlatModel
from tfbdl.inference import (
    HMC,
    MAP,
    MCMC,
    NUTS,
    SGMCMC,
    SWAG,
    DeepEnsemble,
    Laplace,
    LogPosterior,
    MeanFieldVI,
    Mixture,
    NeuralLinear,
    NotFittedError,
    method,
)
from tfbdl.keras_private import own_variables, walk
from tfbdl.optimizers import IVON, SGHMC
from tfbdl.predictive.predict import Request

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


class MethodTest(tf.test.TestCase, parameterized.TestCase):
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

    def test_every_method_is_here(self) -> None:
        kinds = {
            value
            for value in vars(inference).values()
            if inspect.isclass(value) and issubclass(value, inference.Method)
        }
        self.assertEqual(kinds - {inference.Method}, {type(way.made()) for way in METHODS.values()})

    @ALL
    def test_the_constructor_touches_nothing(self, name: str) -> None:
        """Its arguments stand under their names; the network is as it was."""
        model = network(METHODS[name].optimizer and METHODS[name].optimizer())
        before = state_of(model)
        posterior = METHODS[name].make(model)
        self.assert_same_state(before, state_of(model))
        self.assertFalse(posterior.is_fitted)
        self.assertIn("not fitted", repr(posterior))
        for argument in inspect.signature(type(posterior)).parameters:
            self.assertTrue(hasattr(posterior, argument), argument)

    @ALL
    def test_fit_touches_what_it_trains_alone(self, name: str) -> None:
        """Methods around one training train the network given; others leave it as it was."""
        way = METHODS[name]
        model = network(way.optimizer and way.optimizer())
        before = state_of(model)
        posterior = way.make(model)
        self.assertIs(posterior.fit(X, Y, **way.fit), posterior)
        trained = isinstance(posterior, (SWAG, SGMCMC, MeanFieldVI, Mixture))
        learned = {"variables", "of the optimizer", "losses"} if trained else set()
        fresh = isinstance(posterior, (DeepEnsemble, Mixture))
        seeds = {"random", "numpy"} if fresh else set()
        self.assert_same_state(before, state_of(model), learned | seeds)
        self.assertEqual(trained, not np.allclose(model.get_weights()[0], before["variables"][0]))

    @ALL
    def test_what_needs_a_fit_says_so(self, name: str) -> None:
        """Every public method and attribute that asks the posterior, by its own name."""
        posterior = METHODS[name].made()
        values = {"x": X, "request": Request(), "num_samples": 3, "seed": 0, "num_data": 9}
        values["model"] = network()
        setup = {"fit", "fit_together", "update", "restore", "get_config", "from_config"}
        setup |= {"predictive", "input"}
        asked_for = set()
        for kind in type(posterior).__mro__:
            if not kind.__module__.startswith("tfbdl"):
                continue
            for public, thing in vars(kind).items():
                is_call = inspect.isfunction(thing) and public not in setup
                if public[0] == "_" or not (is_call or isinstance(thing, property)):
                    continue
                with contextlib.suppress(NotFittedError):
                    actual = getattr(posterior, public)
                    if not is_call or "variables" in public:
                        continue  # an attribute that needs no fit
                    message = f"^{public} needs a fitted {type(posterior).__name__}; call fit first"
                    if public == "functions":
                        message = "^export needs"
                    with tempfile.TemporaryDirectory() as folder:
                        needed = inspect.signature(actual).parameters.values()
                        known = {**values, "path": f"{folder}/p.keras"}
                        given = [known[p.name] for p in needed if p.default is p.empty]
                        with self.assertRaisesRegex(NotFittedError, message):
                            actual(*given)
                        self.assertEmpty(list(Path(folder).iterdir()))
                    asked_for.add(public)
        self.assertContainsSubset({"sample", "ensemble", "summary", "save"}, asked_for)
        with self.assertRaisesRegex(NotFittedError, "^predict needs a fitted"):
            asked(posterior)

    @ALL
    def test_fit_returns_the_object_and_can_be_asked(self, name: str) -> None:
        posterior = fitted(name)
        prediction = asked(posterior)
        self.assertEqual(prediction.mean.shape, (N, 1))
        self.assertAllEqual(prediction.mean, asked(posterior).mean)
        number = min(3, len(posterior.sample()))
        draws = posterior.sample(number, seed=1)
        self.assertEqual(draws.shape[0], number)
        many = posterior.ensemble(60, seed=2)
        self.assertLen(posterior.sample(60, seed=2), many.num_functions)
        self.assertAllEqual(draws, posterior.sample(number, seed=1))
        for wrong in (0, -1, 2.5):
            with self.assertRaisesRegex(ValueError, f"^num_samples={wrong} must be "):
                posterior.sample(wrong)
            with self.assertRaisesRegex(ValueError, f"^num_samples={wrong} must be "):
                posterior.ensemble(wrong)
            with self.assertRaisesRegex(ValueError, f"^num_samples={wrong} must be "):
                tfbdl.predict(posterior, X, wrong, verbose=0)

    @ALL
    def test_what_it_shows(self, name: str) -> None:
        posterior = fitted(name)
        self.assertNotIn("not fitted", repr(posterior))
        self.assertNotIn("\n", repr(posterior))
        self.assertLess(len(repr(posterior)), 250)
        text = str(posterior.summary())
        self.assertStartsWith(text, f"{type(posterior).__name__}(")
        self.assertLess(max(map(len, text.splitlines())), 121)
        expected = {"last/kernel", "last/bias"}
        if not isinstance(posterior, NeuralLinear):
            expected |= {"first/kernel", "first/bias"}
        for path in expected:
            self.assertRegex(text, rf"(?m)^ *{path}\b.* -?[0-9.]+")

    @ALL
    def test_an_ensemble_has_the_samples(self, name: str) -> None:
        """Its functions are those of the network at each sample."""
        posterior = fitted(name)
        ensemble = posterior.ensemble(2, seed=5)
        prediction = tfbdl.predict(ensemble, X, 2, return_samples=True, verbose=0).outputs
        self.assertLen(prediction, ensemble.num_functions)
        flat = FlatModel(ensemble.network)
        for k, outputs in enumerate(prediction):
            theta = ensemble.theta(k)
            expected = flat(tf.constant(theta), tf.cast(X, flat.dtype))
            self.assertAllClose(outputs, expected, 1e-5, 1e-5)
        samples = posterior.sample(len(prediction), seed=5)
        kept = samples.shape[1]  # there may be a scale of the noise behind them
        self.assertAllClose(ensemble.members[:, :kept], samples, 1e-6, 1e-6)

    @ALL
    def test_saved_pickled_copied(self, name: str) -> None:
        posterior = fitted(name)
        expected = asked(posterior)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "posterior.keras"
            posterior.save(path)
            with self.assertRaisesRegex(FileExistsError, "exists; name another"):
                posterior.save(path)
            others = [tfbdl.load(path), keras.models.load_model(path, safe_mode=True)]
            again = Path(folder) / "again.keras"
            others[0].save(again)
            others.append(tfbdl.load(again))
        others += [pickle.loads(pickle.dumps(posterior)), copy.deepcopy(posterior)]
        for other in others:
            self.assertIs(type(other), type(posterior))
            self.assertTrue(other.is_fitted)
            self.assert_same_prediction(asked(other), expected)
            number = min(3, len(posterior.sample()))
            draws = posterior.sample(number, seed=2)
            self.assertAllClose(other.sample(number, seed=2), draws, 1e-6)
            self.assertEqual(other.sample(number).dtype, draws.dtype)
            self.assert_same_summary(posterior, other)

    @parameterized.parameters("laplace", "laplace_full", "laplace_lowrank", "neural_linear_known")
    def test_what_was_chosen_is_saved(self, name: str) -> None:
        """Prior and noise that are set after the fit count, and the evidence of them."""
        posterior = copy.deepcopy(fitted(name))
        posterior.optimize_prior_precision(with_noise=True)
        with tempfile.TemporaryDirectory() as folder:
            posterior.save(f"{folder}/p.keras")
            other = tfbdl.load(f"{folder}/p.keras")
        self.assertNotAllClose(posterior.sigma_noise, fitted(name).sigma_noise, 1e-3)
        self.assertAllClose(other.sigma_noise, posterior.sigma_noise, 1e-12)
        self.assertAllClose(other.prior_precision, posterior.prior_precision, 1e-12)
        evidence = [float(p.log_marginal_likelihood()) for p in (other, posterior)]
        self.assertAllClose(*evidence, 1e-10)
        self.assert_same_prediction(asked(other), asked(posterior))

    @parameterized.parameters(*(name for name in METHODS if "function" not in name))
    def test_a_loaded_posterior_is_fitted_again(self, name: str) -> None:
        """As the first one would be: all of its settings are in the file."""
        way = METHODS[name]
        other = copy.deepcopy(fitted(name))
        for model in networks_in(other):
            model.set_weights(network().get_weights())
            if way.optimizer:
                model.compile(way.optimizer(), model.loss)
        x, y = X[::2], Y[::2]
        fresh = way.made().fit(x, y, **way.fit)
        self.assert_same_prediction(asked(other.fit(x, y, **way.fit)), asked(fresh))

    @parameterized.parameters("laplace_diag", "laplace_full", "mcmc_mala", "neural_linear", "map")
    def test_names_outlive_files(self, name: str) -> None:
        """Layers in layers keep theirs too, whose paths Keras does not keep."""
        way = METHODS[name]
        posterior = way.made(nested).fit(X, Y, **way.fit)
        other = copy.deepcopy(posterior)
        self.assert_same_summary(posterior, other)
        text = str(other.summary())
        self.assertIn("last/kernel", text)
        self.assertEqual("inner/first/kernel" in text, not isinstance(posterior, NeuralLinear))

    @parameterized.parameters("inner", "net/inner", "inner/first", "net/inner/first/kernel", "net")
    def test_names_of_all_kinds(self, chosen: Any) -> None:
        posterior = Laplace(nested(), subset_of_weights=[chosen], hessian_structure="diag")
        paths = {"net": 4, "net/inner/first/kernel": 1}
        self.assertLen(posterior.paths, paths.get(chosen, 2))
        self.assertEqual(copy.deepcopy(posterior.fit(X, Y)).paths, posterior.paths)

    @ALL
    def test_an_unfitted_method_is_copied(self, name: str) -> None:
        if "function" in name:
            self.skipTest("a function is in no file")
        way = METHODS[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Keras', of optimizers without a step
            other = copy.deepcopy(way.made())
        self.assertFalse(other.is_fitted)
        if not way.trains:
            self.assert_same_prediction(asked(other.fit(X, Y, **way.fit)), asked(fitted(name)))

    @parameterized.parameters(*(n for n in METHODS if n not in TRAIN_ON))
    def test_fitted_twice_is_fitted_once(self, name: str) -> None:
        """Whatever it was fitted to before; those that train a network on have tests of theirs."""
        way = METHODS[name]
        posterior = way.made()
        posterior.fit(X[: N // 2], 1.0 - Y[: N // 2], **way.fit)
        posterior.fit(X, Y, **way.fit)
        self.assert_same_prediction(asked(posterior), asked(fitted(name)))
        self.assert_same_summary(fitted(name), posterior)

    @parameterized.parameters(*OF_DATA)
    def test_a_failed_fit_leaves_the_posterior(self, name: str) -> None:
        posterior = copy.deepcopy(fitted(name))
        before = asked(posterior)
        with self.assertRaisesRegex(ValueError, "^x is not finite"):
            posterior.fit(np.nan * X, Y, **METHODS[name].fit)
        self.assert_same_prediction(asked(posterior), before)

    @ALL
    def test_the_network_trained_on_changes_no_posterior(self, name: str) -> None:
        """Neither its weights nor the statistics of its normalisation."""
        way = METHODS[name]
        posterior = way.made(normalised).fit(X, Y, **way.fit)
        before = asked(posterior)
        for model in networks_in(posterior):
            model.set_weights([w + 0.5 for w in model.get_weights()])
        self.assert_same_prediction(asked(posterior), before)

    @ALL
    def test_data_sets(self, name: str) -> None:
        """As on arrays, whatever the batches; where training is, they are its steps."""
        way = METHODS[name]
        data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(N if way.trains else 16)
        settings = {key: value for key, value in way.fit.items() if key != "batch_size"}
        on_arrays = fitted(name)
        if way.trains:  # arrays are shuffled, and masks are by place
            dropped = mock.patch.object(keras.layers.Dropout, "call", lambda _, x, training=None: x)
            self.enter_context(dropped)
            on_arrays = way.made().fit(X, Y, **settings, batch_size=N)
        on_data = way.made().fit(data, **settings)
        self.assert_same_prediction(asked(on_data), asked(on_arrays))
        self.assert_same_prediction(asked(on_data, data), asked(on_arrays))
        with self.assertRaisesRegex(ValueError, "^y is given, but x is a tf.data.Dataset"):
            way.made().fit(data, Y, **settings)

    @parameterized.product(
        name=("laplace", "laplace_full", "neural_linear", "map", "mcmc"), structure=(dict, tuple)
    )
    def test_structures(self, name: str, structure: Any) -> None:
        """Several inputs: arrays, and batches of a data set, as one array of all."""
        way, columns = METHODS[name], (X[:, :1], X[:, 1:])
        x = dict(zip("ab", columns, strict=True)) if structure is dict else columns
        data = tf.data.Dataset.from_tensor_slices((x, Y)).batch(16)

        def make(optimizer: Any) -> Any:
            return two_inputs(structure)

        expected = asked(fitted(name))
        for given in ((x, Y), (data,)):
            posterior = way.made(make).fit(*given, **way.fit)
            self.assert_same_prediction(asked(posterior, x), expected)
        self.assert_same_prediction(asked(copy.deepcopy(posterior), x), expected)


class FormatTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters("laplace", "neural_linear", "map", "mcmc", "swag", "deep_ensemble")
    def test_a_newer_file_is_refused_in_one_line(self, name: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "newer.keras"
            with mock.patch.object(method, "FORMAT", 99):
                fitted(name).save(path)
            with self.assertRaisesRegex(
                ValueError, "format 99 is of a newer tfbdl.*update"
            ) as caught:
                tfbdl.load(path)
        self.assertNotIn("\n", str(caught.exception))

    def test_other_files(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(FileNotFoundError, "is no file"):
                tfbdl.load(f"{folder}/missing.keras")
            path = Path(folder) / "damaged.keras"
            fitted("laplace").save(path)
            whole = path.read_bytes()
            for damaged in (b"PK garbage", whole[: len(whole) // 2]):
                path.write_bytes(damaged)
                with self.assertRaisesRegex(ValueError, "cannot be loaded") as caught:
                    tfbdl.load(path)
                self.assertNotIn("\n", str(caught.exception))
            with self.assertRaisesRegex(ValueError, "must end in .keras"):
                fitted("laplace").save(f"{folder}/p.npz")
            with self.assertRaisesRegex(ValueError, "must end in .keras"):
                other = Path(folder) / "p.npz"
                other.write_bytes(whole)
                tfbdl.load(other)


def density(theta: Any) -> Any:
    """N(2, diag(1, 1/4)), up to a constant."""
    return -0.5 * tf.reduce_sum(((theta - 2.0) / tf.constant([1.0, 0.5])) ** 2, axis=1)


START = {"initial": np.zeros(2, "float32"), "jit_compile": False}


class DensityTest(tf.test.TestCase, parameterized.TestCase):
    """Chains and searches on any log density."""

    def test_mode(self) -> None:
        mode = MAP(density, **START).fit()
        self.assertAllClose(mode.theta, [2.0, 2.0], atol=1e-3)
        self.assertAllClose(mode.sample(3), [[2.0, 2.0]], atol=1e-3)
        self.assertRegex(str(mode.summary()), "(?m)^theta .*2")

    def test_chains(self) -> None:
        sizes = {"num_warmup": 200, "num_samples": 500, "num_chains": 4}
        chains = MCMC(density, kernel=NUTS(), **START, **sizes).fit(verbose=0)
        summary = chains.summary().quantities["theta"]
        error = 5 * summary.stddev / np.sqrt(np.minimum(summary.ess_bulk, 2000))
        self.assertAllInRange((summary.mean - 2.0) / error, -1.0, 1.0)
        self.assertAllClose(summary.stddev, [1.0, 0.5], rtol=0.15)

    def test_chains_draw_where_a_posterior_starts_them(self) -> None:
        """In each fit, by its seed; the argument stays, and copies have the points in its place."""
        laplace = Laplace(network(), **OF_ALL).fit(X, Y)
        sizes = {"num_warmup": 0, "num_samples": 2, "num_chains": 3, "jit_compile": False}
        still = HMC(step_size=1e-9, trajectory_length=1e-9)
        chains = MCMC(laplace.model, 1.0, kernel=still, initial=laplace, **sizes)
        given = chains.initial
        self.assertEqual(repr(given), repr(laplace))
        others = [pickle.loads(pickle.dumps(chains)), copy.copy(chains), copy.deepcopy(chains)]
        others.append(MCMC.from_config(chains.get_config()))
        for each in (chains, *others):
            theta = each.fit(X, Y, verbose=0).theta[0]
            self.assertAllClose(theta, laplace.sample(3, seed=0), atol=1e-5)
        chains.seed = 7
        for data in ((X, Y), (X[::2], Y[::2])):
            expected = laplace.fit(*data).sample(3, seed=7)
            self.assertAllClose(chains.fit(X, Y, verbose=0).theta[0], expected, atol=1e-5)
        self.assertIs(chains.initial, given)
        laplace.fit(X[::3], Y[::3])  # what starts a next fit, and not what started this one
        with tempfile.TemporaryDirectory() as folder:
            chains.save(f"{folder}/p.keras")
            loaded = tfbdl.load(f"{folder}/p.keras")
        self.assertAllEqual(loaded.initial, expected)
        self.assertAllEqual(loaded.theta, chains.theta)
        self.assertLen(list(walk(chains)), len(list(walk(chains.model))) + 1)
        with self.assertRaisesRegex(ValueError, r"^initial=Laplace.* is a posterior; give"):
            MAP(laplace.model, 1.0, initial=laplace)

    @parameterized.parameters(MAP, MCMC)
    def test_they_take_no_data_and_make_no_network(self, kind: Any) -> None:
        made = kind(density, **START)
        for given in ({"x": X, "y": Y}, {"y": Y}, {"batch_size": 3}):
            with self.assertRaisesRegex(ValueError, f"^{next(iter(given))} is for a keras.Model"):
                made.fit(**given)
        with self.assertRaisesRegex(ValueError, "^prior=1.0 is for a keras.Model"):
            kind(density, 1.0)
        with self.assertRaisesRegex(ValueError, "^likelihood=.* is for a keras.Model"):
            kind(density, likelihood=tfbdl.likelihoods.Normal())
        with self.assertRaisesRegex(ValueError, "^prior=None: a network's weights need one"):
            kind(network())
        with self.assertRaisesRegex(ValueError, "^x=None: give inputs"):
            kind(network(), 1.0).fit()
        plain = network()
        plain.compile("sgd", "mse")
        with self.assertRaisesRegex(ValueError, "^likelihood=None: the loss of model=net is no"):
            kind(plain, 1.0)
        for wrong, message in (
            (-1.0, "^prior=-1.0 must be "),
            (priors.ARD(), "^prior=ARD has scales with a posterior of their own"),
            ({"first": 1.0}, "^prior names none for the weight 'last/kernel'"),
            ({"*": 1.0, "nose": 1.0}, "^prior names 'nose'; the weights are first/kernel, "),
        ):
            with self.assertRaisesRegex(ValueError, message):
                kind(network(), wrong)
        random_model = keras.Sequential([keras.Input((2,)), layers.BayesDense(1, num_data=9)])
        with self.assertRaisesRegex(ValueError, "^model=.* has the random layer"):
            kind(random_model, 1.0, likelihood=tfbdl.likelihoods.Normal())
        with self.assertRaisesRegex(ValueError, "^model='net' must be a keras.Model, or a func"):
            kind("net")

    @parameterized.product(
        kind=(MAP, MCMC), what=("a bare density", "a LogPosterior", "a joint prior")
    )
    def test_what_no_file_can_hold(self, kind: Any, what: Any) -> None:
        """It is refused by its name, and nothing is written."""
        sizes = {"num_warmup": 5, "num_samples": 5} if kind is MCMC else {}

        def joint(theta: Any) -> Any:
            return -0.5 * tf.reduce_sum(theta**2)

        made, data = {
            "a bare density": lambda: (kind(density, **START, **sizes), ()),
            "a LogPosterior": lambda: (
                kind(LogPosterior(network(), 1.0, X, Y), initial="model", **sizes),
                (),
            ),
            "a joint prior": lambda: (kind(network(), joint, initial="model", **sizes), (X, Y)),
        }[what]()
        if kind is MAP:
            made.max_iterations, made.tolerance = 1, 1e6
        argument = "prior" if what == "a joint prior" else "model"
        made.fit(*data)
        with tempfile.TemporaryDirectory() as folder:
            message = f"^{argument}=.* is a function, which no file can hold; keep sample"
            with self.assertRaisesRegex(ValueError, message) as caught:
                made.save(f"{folder}/p.keras")
            self.assertNotIn("\n", str(caught.exception))
            self.assertEmpty(list(Path(folder).iterdir()))

    @parameterized.named_parameters(
        ("layer", lambda: keras.layers.Lambda(lambda x: 2.0 * x, name="odd")),
        ("activation", lambda: keras.layers.Dense(4, activation=lambda x: x, name="odd")),
        ("constraint", lambda: keras.layers.Dense(4, kernel_constraint=lambda w: w, name="odd")),
        (
            "inside",
            lambda: keras.Sequential(
                [keras.layers.TimeDistributed(keras.layers.Lambda(lambda x: x, name="odd"))]
            ),
        ),
    )
    def test_a_lambda_in_the_network(self, odd: Any) -> None:
        """It is refused with its layer, since files give it back in no safe mode."""
        stack = [keras.layers.Reshape((2, 1)), odd(), keras.layers.Flatten(), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((2,)), *stack])
        model.compile("sgd", tfbdl.likelihoods.Normal(1.0))
        posterior = Laplace(model, hessian_structure="full", jit_compile=False).fit(X, Y)
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(ValueError, " of layer 'odd' is a lambda") as caught:
                posterior.save(f"{folder}/p.keras")
            self.assertNotIn("\n", str(caught.exception))
            self.assertEmpty(list(Path(folder).iterdir()))

    def test_a_network_without_a_config(self) -> None:
        class Held(keras.Model):
            def __init__(self, layer: Any) -> None:
                super().__init__()
                self.layer = layer

            def call(self, x: Any) -> Any:
                return self.layer(x)

        model = Held(keras.layers.Dense(1))
        model(X)
        model.compile("sgd", tfbdl.likelihoods.Normal(1.0))
        posterior = Laplace(model, jit_compile=False).fit(X, Y)
        with tempfile.TemporaryDirectory() as folder:
            message = "^model=.* cannot be saved: Object Held .* Please implement `get_config.*`.$"
            with self.assertRaisesRegex(ValueError, message):
                posterior.save(f"{folder}/p.keras")
            self.assertEmpty(list(Path(folder).iterdir()))

    def test_an_unknown_class_is_named_by_load(self) -> None:
        """The innermost reason is told, whole, where Keras tells of the posterior's config."""

        class Mine(keras.layers.Dense):
            pass

        model = keras.Sequential([keras.Input((2,)), Mine(4), keras.layers.Dense(1)])
        model.compile("sgd", tfbdl.likelihoods.Normal(1.0))
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/p.keras"
            Laplace(model, jit_compile=False).fit(X, Y).save(path)
            with self.assertRaisesRegex(ValueError, "loaded: Could not locate class 'Mine'"):
                tfbdl.load(path)
            with keras.saving.custom_object_scope({"Mine": Mine}):
                self.assertIsInstance(tfbdl.load(path), Laplace)

    @parameterized.parameters("mcmc", "map")
    def test_a_log_posterior_is_a_density_with_a_network(self, name: str) -> None:
        target = LogPosterior(network(), 1.0, X, Y, dtype=fitted(name).dtype)
        given = {"mcmc": {"kernel": HMC(step_size=0.01), **CHAINS}}.get(
            name, {"max_iterations": 3000, "jit_compile": False}
        )
        by_density = type(fitted(name))(target, **given).fit(**METHODS[name].fit)
        self.assertAllEqual(by_density.theta, fitted(name).theta)
        self.assertAllClose(asked(by_density).mean, asked(fitted(name)).mean, 1e-6)


if __name__ == "__main__":
    tf.test.main()
