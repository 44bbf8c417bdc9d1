"""Files and copies of every method of inference, and what no file can hold."""

import copy
import pickle
import tempfile
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import tensorflow as tf
from absl.testing import parameterized
from every_method import (
    ALL,
    METHODS,
    MethodTestCase,
    X,
    Y,
    asked,
    fitted,
    nested,
    network,
    networks_in,
)
from known_targets import START, density

import tfbdl
from tfbdl.inference import MAP, MCMC, Laplace, LogPosterior, NeuralLinear, method


class FilesTest(MethodTestCase):
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


class RefusalsTest(tf.test.TestCase, parameterized.TestCase):
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


if __name__ == "__main__":
    tf.test.main()
