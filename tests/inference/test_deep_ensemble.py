"""Deep ensembles: members are networks trained alone, from starts of their own."""

import tempfile
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl import layers
from tfbdl.flat_model import FlatModel
from tfbdl.inference import DeepEnsemble, NotFittedError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)).astype("float32")
Y = (X[:, :1] - 0.5 * X[:, 1:2] + RNG.normal(0, 0.3, (40, 1))).astype("float32")
FIT = {"batch_size": 10, "verbose": 0}


def build(activation: str = "tanh", units: int = 4) -> Any:
    hidden = keras.layers.Dense(units, activation)
    model = keras.Sequential([keras.Input((3,)), hidden, keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), tfbdl.likelihoods.Normal(0.3))
    return model


def build_normalised() -> Any:
    stack = [keras.layers.Dense(4), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((3,)), *stack])
    model.compile(keras.optimizers.SGD(0.05), tfbdl.likelihoods.Normal(0.3))
    return model


class DeepEnsembleTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(build, build_normalised)
    def test_members_are_trained_alike_from_different_starts(self, make: Any) -> None:
        fitted = DeepEnsemble(make, 3, seed=5).fit(X, Y, epochs=2, **FIT)
        outputs = []
        for k, member in enumerate(fitted.sample()):
            keras.utils.set_random_seed(5 + k)
            alone = make()
            tfbdl.train(alone, X, Y, epochs=2, seed=5 + k, **FIT)
            self.assertAllClose(member, FlatModel(alone).theta, 1e-6)
            outputs.append(alone(X, training=False))
        members = fitted.sample()
        self.assertGreater(np.abs(members[0] - members[1])[:12].max(), 0.01)
        for posterior in (fitted, fitted.ensemble()):
            prediction = tfbdl.predict(posterior, X, verbose=0)
            self.assertAllClose(prediction.mean, np.mean(outputs, axis=0), 1e-5, 1e-6)
            self.assertAllClose(prediction.epistemic_stddev, np.std(outputs, axis=0), 1e-4, 1e-6)

    def test_frozen_layers_are_common_to_all(self) -> None:
        model = build()
        body = model.layers[0]
        body.trainable = False
        model.compile(model.optimizer, model.loss)
        fitted = DeepEnsemble(model, 2).fit(X, Y, epochs=1, **FIT)
        member = fitted.network()
        self.assertAllEqual(member.layers[0].kernel, body.kernel)
        self.assertFalse(member.layers[0].trainable)
        heads = fitted.sample()
        self.assertEqual(heads.shape, (2, 5))
        self.assertNotAllClose(heads[0], heads[1])
        features = body(X)
        outputs = [features @ h[:4, None] + h[4] for h in heads]
        prediction = tfbdl.predict(fitted, X, verbose=0)
        self.assertAllClose(prediction.mean, np.mean(outputs, axis=0), 1e-5, 1e-6)

    def test_a_class_that_makes_its_layers_itself(self) -> None:
        """Its config gives other layers back than its graph has, as those of tasks of others."""

        class Task(keras.Model):
            def __init__(self, backbone: Any = None, **kwargs: Any) -> None:
                self.backbone = backbone or build().layers[0]
                inputs = keras.Input((3,))
                super().__init__(inputs, keras.layers.Dense(1)(self.backbone(inputs)), **kwargs)

            def get_config(self) -> Any:
                return {"name": self.name}

        model = Task(keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "tanh")]))
        model.compile(keras.optimizers.SGD(0.1), tfbdl.likelihoods.Normal(0.3))
        fitted = DeepEnsemble(model, 2).fit(X, Y, epochs=1, **FIT)
        self.assertEqual(fitted.sample().shape, (2, 21))

    def test_a_model_says_what_all_members_are_like(self) -> None:
        """Each is made anew, as a function would make it, and the model is left alone."""
        keras.utils.set_random_seed(0)
        model = build_normalised()
        before = model.get_weights()
        fitted = DeepEnsemble(model, 2, seed=5).fit(X, Y, epochs=2, **FIT)
        for a, b in zip(before, model.get_weights(), strict=True):
            self.assertAllEqual(a, b)
        for k, member in enumerate(fitted.sample()):
            keras.utils.set_random_seed(5 + k)
            alone = keras.models.clone_model(model)
            alone.compile(keras.optimizers.SGD(0.05), tfbdl.likelihoods.Normal(0.3))
            tfbdl.train(alone, X, Y, epochs=2, seed=5 + k, **FIT)
            self.assertAllClose(member, FlatModel(alone).theta, 1e-6)

    def test_what_layers_are_adapted_to_stays(self) -> None:
        scaled = keras.layers.Normalization()
        scaled.adapt(10.0 * X + 3.0)
        model = keras.Sequential([keras.Input((3,)), scaled, keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.01), tfbdl.likelihoods.Normal(0.3))
        fitted = DeepEnsemble(model, 2).fit(10.0 * X + 3.0, Y, epochs=1, **FIT)
        inputs = (X - X.mean(axis=0)) / X.std(axis=0)
        expected = [inputs @ theta[:3, None] + theta[3] for theta in fitted.sample()]
        prediction = tfbdl.predict(fitted, 10.0 * X + 3.0, verbose=0)
        self.assertAllClose(prediction.mean, np.mean(expected, axis=0), 1e-4, 1e-5)

    def test_a_stopped_call_goes_on(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            DeepEnsemble(build, 1, seed=1).fit(X, Y, epochs=1, savedir=folder, **FIT)
            resumed = DeepEnsemble(build, 2, seed=1)
            resumed.fit(X, Y, epochs=3, savedir=folder, **FIT)
        whole = DeepEnsemble(build, 2, seed=1).fit(X, Y, epochs=3, **FIT)
        self.assertAllClose(resumed.ensemble().members, whole.ensemble().members, 1e-6)

    def test_loading_warns_of_nothing(self) -> None:
        """Keras does of optimizers that have not been built, as that of the network that stays."""

        def build() -> Any:
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
            model.compile("adam", tfbdl.likelihoods.Normal(1.0))
            return model

        posterior = DeepEnsemble(build, 2).fit(X, Y, epochs=1, **FIT)
        with tempfile.TemporaryDirectory() as folder:
            posterior.save(f"{folder}/e.keras")
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                loaded = tfbdl.load(f"{folder}/e.keras")
            self.assertEmpty([w for w in caught if "Skipping" in str(w.message)])
        self.assertAllClose(loaded.sample(), posterior.sample(), 1e-6)

    def test_members_that_stay_in_their_folder(self) -> None:
        """The same answers as of those in memory, by one network at a time; from a file too."""
        held = DeepEnsemble(build_normalised, 3, seed=1).fit(X, Y, epochs=2, **FIT)
        with tempfile.TemporaryDirectory() as folder:
            runs, file = Path(folder) / "runs", Path(folder) / "e.keras"
            stored = DeepEnsemble(build_normalised, 3, seed=1, in_memory=False)
            stored.fit(X, Y, epochs=2, savedir=runs, **FIT)
            stored.save(file)
            self.assertLess(sum(a.size for a in stored.fitted_arrays().values()), 1000)
            expected = tfbdl.predict(held, X, return_samples=True, verbose=0)
            for posterior in (stored, tfbdl.load(file)):
                with mock.patch.object(DeepEnsemble, "ensemble", None):
                    got = tfbdl.predict(posterior, X, return_samples=True, batch_size=9, verbose=0)
                    few = tfbdl.predict(posterior, X, 2, verbose=0)
                    density = tfbdl.log_predictive_density(posterior, X, Y)
                self.assertEqual((got.num_samples, few.num_samples), (3, 2))
                for name in ("mean", "aleatoric_variance", "epistemic_variance", "outputs"):
                    self.assertAllClose(getattr(got, name), getattr(expected, name), 1e-5, 1e-6)
                self.assertAllClose(density, tfbdl.log_predictive_density(held, X, Y), 1e-5)
                two = tfbdl.predict(held, X, 2, verbose=0)
                self.assertAllClose(few.mean, two.mean, 1e-5, 1e-6)
                self.assertAllClose(posterior.sample(), held.sample(), 1e-6)
                self.assertAllClose(posterior.ensemble()(X), held.ensemble()(X), 1e-5, 1e-6)
                for row, like in zip(posterior.summary().rows, held.summary().rows, strict=True):
                    self.assertAllClose(row.stddev, like.stddev, 1e-4)
            with self.assertRaisesRegex(ValueError, "^x is a generator, whose batches are gone"):
                tfbdl.predict(stored, (x for x in [X]), verbose=0)
            (runs / "member_1" / "checkpoint.npz").unlink()
            with self.assertRaisesRegex(ValueError, "is gone, which holds member 1; put it back"):
                tfbdl.predict(stored, X, verbose=0)
        with self.assertRaisesRegex(ValueError, "^savedir=None: in_memory=False leaves the memb"):
            DeepEnsemble(build, 2, in_memory=False).fit(X, Y, epochs=1, **FIT)

    def test_some_of_the_members(self) -> None:
        fitted = DeepEnsemble(build, 3).fit(X, Y, epochs=1, **FIT)
        self.assertAllEqual(fitted.ensemble(2).members, fitted.sample(2))
        self.assertAllEqual(fitted.ensemble(100).members, fitted.sample())
        self.assertAllEqual(fitted.sample(4), fitted.sample())
        for call in (fitted.sample, fitted.ensemble):
            for number in (0, -1, 2.5):
                with self.assertRaisesRegex(ValueError, f"^num_samples={number} must be a posit"):
                    call(number)

    def test_arguments(self) -> None:
        for arguments, message in (
            ((build, 0), "^num_members=0 must be a positive integer$"),
            ((build(), 0), "^num_members=0 must be a positive integer$"),
            (("build",), "^build_model='build' must be a function without arguments that makes"),
            ((keras.Sequential([keras.layers.Dense(1)]),), "^build_model=.* must be built and com"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                DeepEnsemble(*arguments)
        with self.assertRaisesRegex(ValueError, "^seed=4294967295 must be at most 4294967291"):
            DeepEnsemble(build, seed=2**32 - 1)
        with self.assertRaisesRegex(ValueError, "^jit_compile='no' must be True or False$"):
            DeepEnsemble(build, jit_compile="no")
        with self.assertRaisesRegex(NotFittedError, "^network needs a fitted DeepEnsemble; call"):
            DeepEnsemble(build).network()

    def test_members_that_differ(self) -> None:
        """One network is to stand for all."""
        wide, relu = iter([4, 5]), iter(["tanh", "relu"])
        for make, message in (
            (lambda: build(units=next(wide)), "^models differ in the shapes of their weights"),
            (lambda: build(next(relu)), r"^models\[1\] has other layers than models\[0\]"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                DeepEnsemble(make, 2).fit(X, Y, epochs=1, **FIT)

    def test_random_layers(self) -> None:
        def random() -> Any:
            stack = [layers.MCDropout(0.5), keras.layers.Dense(1)]
            model = keras.Sequential([keras.Input((3,)), *stack])
            model.compile("sgd", "mse")
            return model

        with self.assertRaisesRegex(ValueError, "^model=.* has the random layer"):
            DeepEnsemble(random, 2).fit(X, Y, epochs=1, **FIT)


if __name__ == "__main__":
    tf.test.main()
