"""Whatever the package exports that can be part of a model comes back from its files as it was.

The objects are found in `__all__`, so that a new one is tested or named in a failure. What it takes
beyond its defaults is in ARGUMENTS; what it is for, in a test of its own.
"""

import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl import layers, models, optimizers
from tfbdl.draws import DrawnModel, make_draw
from tfbdl.layers import estimators

N = 6
RNG = np.random.default_rng(0)
KINDS = (
    keras.layers.Layer,
    keras.losses.Loss,
    keras.metrics.Metric,
    keras.optimizers.Optimizer,
    keras.optimizers.schedules.LearningRateSchedule,
    estimators.Estimator,
)
BASES = {  # what others derive from
    "likelihoods.Likelihood",
    "posteriors.InverseCDF",
    "posteriors.Posterior",
    "priors.Hierarchical",
    "priors.KroneckerNormal",
    "priors.Prior",
    "inference.Method",
}
COVARIANCE = np.eye(4) + 0.5
ARGUMENTS = {
    "layers.BatchEnsembleWrapper": {"layer": lambda: keras.layers.Dense(3), "num_members": 2},
    "layers.BayesBatchEnsembleWrapper": {"layer": lambda: keras.layers.Dense(3), "num_members": 2},
    "layers.BayesEinsumDense": {"equation": "ab,bc->ac", "output_shape": 3, "bias_axes": "c"},
    "layers.BayesEmbedding": {"input_dim": 5, "output_dim": 3},
    "layers.BayesWrapper": {"layer": lambda: keras.layers.Dense(3)},
    "layers.BoundedSpectralNormalization": {"layer": lambda: keras.layers.Dense(3)},
    "layers.ConcreteDropout": {"layer": keras.layers.Dense(3)},
    "layers.Exchanged": {
        "layer": lambda: keras.layers.TimeDistributed(keras.layers.Dropout(0.1)),
        "inner": lambda: {"layer": layers.MCDropout(0.5)},
    },
    "layers.HeteroscedasticLogits": {"rank": 0},
    "likelihoods.Expected": {"likelihood": tfbdl.likelihoods.Normal(0.5)},
    "likelihoods.Joint": {"likelihoods": {"a": tfbdl.likelihoods.Normal(0.5)}},
    "metrics.BrierDecomposition": {"num_classes": 3},
    "metrics.ClasswiseCalibrationError": {"num_classes": 3},
    "metrics.OfLabelled": {
        "metric": keras.metrics.SparseCategoricalAccuracy(),
        "ignore_class": 255,
    },
    "metrics.OfMean": {
        "metric": keras.metrics.RootMeanSquaredError(),
        "likelihood": tfbdl.likelihoods.Normal("predicted"),
    },
    "optimizers.CyclicalSchedule": {"initial_rate": 0.1, "steps_per_cycle": 7},
    "priors.MatrixNormal": {"row_covariance": COVARIANCE, "column_covariance": np.eye(3)},
    "priors.MultivariateNormal": {"covariance": np.kron(COVARIANCE, np.eye(3))},
}
OF_TWO_COLUMNS = ("Beta", "Expected", "Gamma", "NegativeBinomial", "NormalMixture", "Quantiles")
USUAL = {"num_data": N, "units": 3, "filters": 3, "kernel_size": 2, "rate": 0.5}
INPUTS = {
    "Exchanged": (5, 2),
    "Filter": (5, 2),
    "1D": (5, 2),
    "2D": (4, 4, 2),
    "3D": (3, 3, 3, 2),
    "GRU": (4, 2),
    "LSTM": (4, 2),
}


def exported() -> Any:
    """The classes by the name of their package and their own."""
    actual = {}
    for module in pkgutil.iter_modules(tfbdl.__path__):
        package = importlib.import_module(f"tfbdl.{module.name}") if module.ispkg else None
        for name in getattr(package, "__all__", ()):
            thing = getattr(package, name)
            if inspect.isclass(thing) and issubclass(thing, KINDS):
                actual[f"{module.name}.{name}"] = thing
    return actual | {f"estimators.{c.__name__}": c for c in estimators._NAMES.values()}


CLASSES = {name: kind for name, kind in exported().items() if name not in BASES}


def of(package: Any) -> Any:
    return tuple(name for name in CLASSES if name.startswith(f"{package}."))


def make(name: str) -> Any:
    """An object of the class, by the arguments that it cannot do without."""
    kind, given = CLASSES[name], ARGUMENTS.get(name, {})
    given = {key: v() if inspect.isfunction(v) else v for key, v in given.items()}
    if issubclass(kind, keras.optimizers.Optimizer):
        given = {"num_data": N, **given}
    parameters = inspect.signature(kind).parameters.values()
    required = [
        p.name
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    missing = set(required) - set(given) - set(USUAL)
    assert not missing, f"{name} needs {missing}: add them to ARGUMENTS of this file"
    return kind(**given, **{key: USUAL[key] for key in required if key not in given})


def config(thing: Any) -> Any:
    """As it is written, where tuples are lists."""
    return json.loads(json.dumps(thing.get_config(), default=lambda part: part.get_config()))


def model_of(layer: Any, name: str = "") -> Any:
    shape = next((shape for end, shape in INPUTS.items() if end in name), (4,))
    words = name == "layers.BayesEmbedding"
    x = RNG.integers(0, 5, (N, 4)) if words else RNG.normal(size=(N, *shape)).astype("float32")
    inputs = keras.Input(x.shape[1:], dtype="int32" if words else "float32")
    return keras.Sequential([inputs, layer, keras.layers.Flatten(), keras.layers.Dense(2)]), x


def layer_with(name: str) -> Any:
    """A layer whose weights have the prior, the posterior or the estimator."""
    part = make(name)
    if name == "priors.SpatialNormal":
        return layers.BayesConv2D(3, 2, num_data=N, prior=part)
    if name.startswith("priors."):
        posterior = "relaxed_bernoulli" if part.discrete else "mean_field"
        return layers.BayesDense(3, num_data=N, prior=part, posterior=posterior)
    if name.startswith("posteriors."):
        special = {"MultiplicativeNormal": "log_uniform", "RelaxedBernoulli": "bernoulli"}
        prior = special.get(type(part).__name__, "normal")
        return layers.BayesDense(3, num_data=N, prior=prior, posterior=part)
    return layers.BayesDense(3, num_data=N, estimator=part)


class SavingTest(tf.test.TestCase, parameterized.TestCase):
    def file(self, name: str) -> str:
        return f"{self.get_temp_dir()}/{name}"

    def through_file(self, model: Any) -> Any:
        model.save(self.file("model.keras"))
        return keras.models.load_model(self.file("model.keras"), safe_mode=True)

    def move(self, model: Any, x: Any) -> None:
        """Weights away from where they start, and some noise drawn."""
        rng = np.random.default_rng(1)
        for variable in model.trainable_variables:
            variable.assign(variable + rng.normal(0, 0.1, variable.shape))
        model(x, training=True)

    def assert_same(self, model: Any, other: Any, x: Any) -> None:
        """Predictions, losses, drawn functions, and the noise of the next training steps."""
        for training in (False, True, True):
            outputs = [m(x, training=training) for m in (model, other)]
            self.assertAllEqual(*outputs)
            self.assertAllEqual(model.losses, other.losses)
        drawn = [DrawnModel(m)(x, draw=make_draw(0, 1)) for m in (model, other)]
        self.assertAllEqual(*drawn)

    @parameterized.parameters(*of("layers"))
    def test_layers(self, name: str) -> None:
        model, x = model_of(make(name), name)
        self.check(model, x, lambda: model_of(make(name), name)[0])

    @parameterized.parameters(*of("priors"), *of("posteriors"), *of("estimators"))
    def test_parts_of_layers(self, name: str) -> None:
        shape = "2D" if name == "priors.SpatialNormal" else ""
        model, x = model_of(layer_with(name), shape)
        self.check(model, x, lambda: model_of(layer_with(name), shape)[0])

    def test_autoencoder(self) -> None:
        def make() -> Any:
            vae = models.VAE(2, (5,))
            vae(x)
            return vae

        x = RNG.random((N, 6)).astype("float32")
        self.check(make(), x, make)

    def test_ensemble(self) -> None:
        def make() -> Any:
            networks = [keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]) for _ in "abc"]
            return models.WeightEnsemble.of(networks)

        x = RNG.normal(size=(N, 4)).astype("float32")
        self.check(make(), x, make)

    def test_batch_ensemble(self) -> None:
        def make() -> Any:
            network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
            return tfbdl.to_batch_ensemble(network, 3)

        x = RNG.normal(size=(N, 4)).astype("float32")
        self.check(make(), x, make)

    def test_normal_weights(self) -> None:
        def make() -> Any:
            network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
            return models.NormalWeights(network, RNG.normal(size=10), RNG.random(10))

        x = RNG.normal(size=(N, 4)).astype("float32")
        self.check(make(), x, make)

    def check(self, model: Any, x: Any, again: Any) -> None:
        self.move(model, x)
        loaded = self.through_file(model)
        same = [(loaded, model)] if not isinstance(model, keras.Sequential) else None
        for a, b in same or zip(loaded.layers, model.layers, strict=True):
            self.assertEqual(config(a), config(b))
        self.assert_same(model, loaded, x)
        other = again()
        model.save_weights(self.file("model.weights.h5"))
        other.load_weights(self.file("model.weights.h5"))
        self.assert_same(model, other, x)

    # A `Joint` is no loss of one output; `test_several_outputs` saves it.
    @parameterized.parameters(*(n for n in of("likelihoods") if n != "likelihoods.Joint"))
    def test_likelihoods(self, name: str) -> None:
        model, x = model_of(layers.BayesDense(3, num_data=N))
        if name == "likelihoods.NormalMixture":
            model.add(keras.layers.Dense(6))
        if name == "likelihoods.Quantiles":
            model.add(keras.layers.Dense(5))
        model.compile("sgd", make(name))
        columns = {f"likelihoods.{n}": (N, 1) for n in OF_TWO_COLUMNS}
        shape = {"likelihoods.Categorical": (N,), **columns}.get(name, (N, 2))
        value = {"likelihoods.LogNormal": 1.0, "likelihoods.Gamma": 1.0, "likelihoods.Beta": 0.5}
        y = np.full(shape, value.get(name, 0.0), "float32")
        loaded = self.through_file(model)
        self.assertIsInstance(loaded.loss, CLASSES[name])
        self.assertEqual(loaded.loss.get_config(), model.loss.get_config())
        self.assertEqual(loaded.evaluate(x, y, verbose=0), model.evaluate(x, y, verbose=0))

    @parameterized.parameters(*of("metrics"))
    def test_metrics(self, name: str) -> None:
        model, _ = model_of(layers.BayesDense(3, num_data=N))
        model.compile("sgd", "mse", metrics=[make(name)], jit_compile=False)
        loaded = self.through_file(model)
        self.assertEqual(loaded.get_compile_config(), model.get_compile_config())
        (metric,) = loaded.get_compile_config()["metrics"]
        self.assertIsInstance(keras.saving.deserialize_keras_object(metric), CLASSES[name])

    @parameterized.parameters(*of("optimizers"))
    def test_optimizers(self, name: str) -> None:
        """A training that goes on from a file is the one that was not stopped."""
        model, x = model_of(keras.layers.Dense(3))
        part = make(name)
        schedule = isinstance(part, keras.optimizers.schedules.LearningRateSchedule)
        model.compile(keras.optimizers.SGD(part) if schedule else part, "mse")
        y = RNG.normal(size=(N, 2)).astype("float32")
        callbacks = [optimizers.DrawnWeights()] if isinstance(part, optimizers.IVON) else []
        model.fit(x, y, verbose=0, callbacks=callbacks)
        loaded = self.through_file(model)
        self.assertEqual(loaded.optimizer.get_config(), model.optimizer.get_config())
        for m in (model, loaded):
            m.fit(x, y, epochs=2, verbose=0, callbacks=callbacks)
        for a, b in zip(model.get_weights(), loaded.get_weights(), strict=True):
            self.assertAllClose(a, b, 1e-6, 1e-6)


class CompletenessTest(tf.test.TestCase):
    def test_every_class_is_tested(self) -> None:
        tested = ("layers", "priors", "posteriors", "estimators", "likelihoods", "metrics")
        elsewhere = ("inference",)  # in tests/inference/every_method.py
        left = [n for n in CLASSES if n.split(".")[0] not in (*tested, "optimizers", *elsewhere)]
        here = ["BatchEnsemble", "NormalWeights", "VAE", "WeightEnsemble"]
        here = [f"models.{name}" for name in here]
        self.assertCountEqual(left, here, "give it a test here")

    def test_names_in_files_are_of_one_class_each(self) -> None:
        names = [keras.saving.get_registered_name(kind) for kind in CLASSES.values()]
        self.assertLen(set(names), len(names))
        self.assertEqual([name for name in names if not name.startswith("tfbdl")], [])

    def test_import_alone_registers_all(self) -> None:
        """A process that does nothing but `import tfbdl`."""
        code = (
            "import json, sys, keras, tfbdl\n"
            "for name, config in json.load(sys.stdin).items():\n"
            "    thing = keras.saving.deserialize_keras_object(config)\n"
            "    assert type(thing).__name__ == name.split('.')[1], name\n"
        )
        configs = {
            name: keras.saving.serialize_keras_object(make(name))
            for name in CLASSES
            if not name.startswith(("models.", "inference."))
        }
        done = subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps(configs),
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])


if __name__ == "__main__":
    tf.test.main()
