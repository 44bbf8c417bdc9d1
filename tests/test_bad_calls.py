"""Bad arguments of public callables: a short form of what `make soak` does, and known cases."""

import contextlib
import io
import os
import re
import tempfile
from typing import Any
from unittest import mock

import bounded_tasks
import keras
import matplotlib as mpl
import numpy as np
import tensorflow as tf
from absl.testing import absltest, parameterized

import tfbdl
from tfbdl import (
    cli,
    data,
    inference,
    layers,
    likelihoods,
    metrics,
    models,
    optimizers,
    plots,
    priors,
)

mpl.use("agg")
from soak import bad_calls, bounded
from soak.calls import Case, all_cases

N = 10
X = np.random.default_rng(0).normal(size=(N, 4)).astype("float32")
CURVE = np.linspace(0.0, 1.0, N)


def dense(**given: Any) -> None:
    layer = layers.BayesDense(3, num_data=N, **given)
    layer(X, training=True)
    layer.get_config()


def laplace(likelihood: Any = None, **given: Any) -> Any:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    return inference.Laplace(model, likelihood or likelihoods.Normal(0.1), **given)


def dense_of(units: int) -> Any:
    return dense()


def fitted_laplace() -> Any:
    return laplace().fit(X, X[:, :1])


def fitted_classifier() -> Any:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    return inference.Laplace(model, likelihoods.Categorical()).fit(X, np.arange(N) % 3)


def chains() -> Any:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    method = inference.MCMC(
        model, 1.0, likelihood=likelihoods.Normal(1.0), kernel="hmc", num_warmup=50, num_samples=4
    )
    return method.fit(X, X[:, :1])


def compiled() -> Any:
    scaled = keras.layers.BatchNormalization()
    model = keras.Sequential([keras.Input((4,)), scaled, keras.layers.Dense(1)])
    model.compile("sgd", likelihoods.Normal(1.0))
    return model


def snapshots() -> Any:
    return inference.SWAG(compiled()).fit(X, X[:, :1], epochs=4)


def bayesian() -> keras.Model:
    return keras.Sequential([keras.Input((4,)), layers.BayesDense(1, num_data=N)])


def bands(**given: Any) -> Any:
    outputs = np.zeros((2, N, 1), "float32")
    one = np.ones((N, 1), "float32")
    actual = tfbdl.Prediction(one, one, one, one[:, 0], 2, likelihoods.Normal(), outputs)
    return plots.predictive_bands(**{"x": CURVE, "prediction": actual, **given})


def command(*words: Any) -> None:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
        cli.main(words)
    raise ValueError(said.getvalue().removesuffix("\n"))


class Scaled(priors.Hierarchical):
    """A prior of the user's own."""

    def get_config(self) -> Any:
        return super().get_config()


REFUSED = {
    "a sigma that nothing hears": (lambda: priors.Normal(sigma=0.1), "sigma=0.1"),
    "two noises": (lambda: laplace(sigma_noise=3.0), "sigma_noise=3.0"),
    "a rank without lowrank": (lambda: laplace(rank=3), "rank=3"),
    "prior of a layer": (lambda: dense(prior={}), "prior={}"),
    "posterior of a layer": (lambda: dense(posterior={}), "posterior={}"),
    "estimator of a layer": (lambda: dense(estimator={}), "estimator={}"),
    "likelihood of a VAE": (lambda: models.VAE(2, likelihood={}), "likelihood={}"),
    "prior of a sampler": (lambda: optimizers.SGLD(0.1, num_data=N, prior={}), "prior={}"),
    "scales, a list": (lambda: Scaled([]), r"scales=\[\]"),
    "scales, empty": (lambda: Scaled({}), "scales={}"),
    "units of text": (lambda: layers.BayesGRU(units="3", num_data=N), "units='3'"),
    "noise_shape of another rank": (
        lambda: layers.MCDropout(0.5, noise_shape=(1, 2, 3))(X),
        "noise_shape=",
    ),
    "noise_shape that does not fit": (
        lambda: layers.MCDropout(0.5, noise_shape=(1, 2))(X),
        "noise_shape=",
    ),
    "a huge scale": (lambda: dense(prior=1e300), "prior=1e"),
    "a huge noise": (lambda: likelihoods.Normal(1e300), "scale=1e"),
    "a tiny noise": (lambda: likelihoods.Normal(1e-300), "scale=1e"),
    "a huge lengthscale": (
        lambda: layers.ConcreteDropout(keras.layers.Dense(3), num_data=N, lengthscale=1e300),
        "lengthscale=1e",
    ),
    "a huge precision": (lambda: laplace(prior_precision=1e300), "prior_precision=1e"),
    "a huge temperature": (
        lambda: optimizers.SGLD(0.1, num_data=N, temperature=1e300),
        "temperature=1e",
    ),
    "a truth value of text": (
        lambda: likelihoods.Categorical(from_logits="no"),
        "from_logits='no'",
    ),
    "a truth value of a number": (lambda: layers.MCDropout(0.5, per_example=1), "per_example=1"),
    "units, or not": (
        lambda: layers.ConcreteDropout(keras.layers.Dense(3), num_data=N, per_unit="yes"),
        "per_unit='yes'",
    ),
    "logs, a list": (lambda: plots.log_curves([], "elbo"), "logs is a list"),
    "logs, empty": (lambda: plots.log_curves({}, "elbo"), "logs"),
    "no prediction": (lambda: bands(prediction=None), "prediction is none"),
    "no points": (lambda: bands(x=None), "x"),
    "data, empty": (lambda: bands(data=[]), "data must be"),
    "draws with data, empty": (
        lambda: plots.function_draws(CURVE, np.zeros((2, N)), data=[]),
        "data must be",
    ),
    "no autoencoder": (lambda: plots.manifold(None), "vae=None"),
    "a seed of a layer": (lambda: dense(seed=10**30), "seed=10"),
    "a seed of functions": (
        lambda: tfbdl.predict(keras.Sequential([layers.MCDropout(0.5)]), X, seed=10**30),
        "seed=10",
    ),
    "a seed of chains": (
        lambda: inference.MCMC(tf.reduce_sum, initial=np.zeros(2), seed=10**30),
        "seed=10",
    ),
    "a seed of images": (lambda: data.binarize(np.zeros((2, 2)), seed="abc"), "seed='abc'"),
    "a seed of noise": (lambda: data.noise(3, seed="abc"), "seed='abc'"),
    "a seed of points": (lambda: data.gal_linear(9, seed="abc"), "seed='abc'"),
    "a function that needs more": (lambda: inference.DeepEnsemble(dense_of), "build_model="),
    "a density of nothing": (lambda: inference.MCMC(lambda: 0.0), "model="),
    "a path to save to": (lambda: fitted_laplace().save(3), "path=3"),
    "an activity regularizer": (
        lambda: dense(activity_regularizer=[]),
        r"activity_regularizer=\[\]",
    ),
    "noise_shape that is symbolic": (
        lambda: layers.MCDropout(0.5, noise_shape=keras.Input((4,))),
        "noise_shape=",
    ),
    "padding that is no integer": (
        lambda: layers.BayesConv1DTranspose(2, 3, num_data=N, output_padding=np.array(0.5)),
        "output_padding=",
    ),
    "inputs of chains": (lambda: chains().outputs(X[:, :3]), "x has examples of shape"),
    "inputs of statistics": (lambda: snapshots().ensemble(2, x=X[:, :3]), "x has examples of"),
    "targets of a metric": (
        lambda: metrics.NormalCRPS().update_state([np.nan], [[0.0, 1.0]]),
        "y_true is not finite",
    ),
    "callbacks that are none": (
        lambda: inference.SWAG(compiled()).fit(X, X[:, :1], epochs=1, callbacks=False),
        "callbacks=False",
    ),
    "reconstructions of pixels": (
        lambda: plots.reconstructions(np.zeros((2, 3, 3)), np.full((2, 3, 3), 255.0)),
        "reconstructed ranges",
    ),
    "a rate that needs more": (
        lambda: optimizers.SGLD(keras.initializers.Zeros(), num_data=N),
        "learning_rate=",
    ),
    "a weight of text as a tensor": (
        lambda: tfbdl.set_kl_weight(bayesian(), tf.constant("a")),
        "weight=<tf.Tensor",
    ),
    "no pixels": (lambda: models.VAE(2).fit(None), "x=None is no array"),
    "symbolic pixels": (
        lambda: models.VAE(2).fit(X**0, validation_data=keras.Input((4,))),
        "x=<KerasTensor",
    ),
    "labels to validate by": (
        lambda: fitted_classifier().optimize_prior_precision("gridsearch", x=X, y=[-1e300] * N),
        "y ",
    ),
    "precisions of a sparse tensor": (
        lambda: laplace(prior_precision=tf.sparse.eye(2)),
        "prior_precision=SparseTensor",
    ),
    "samples of a command": (
        lambda: command("predict", "a.keras", "a.npz", "--samples", "9" * 20),
        "--samples",
    ),
    "figure of a command": (lambda: command("log", "train.log", "--figure", ""), "--figure"),
}
"""A call and what its one line has to name, by what is wrong."""


class NamedTest(parameterized.TestCase):
    @parameterized.parameters(*REFUSED)
    def test_refused_in_one_line(self, what: Any) -> None:
        call, message = REFUSED[what]
        with self.assertRaisesRegex((ValueError, TypeError), message) as caught:
            call()
        self.assertNotIn("\n", str(caught.exception))
        self.assertNotIsInstance(caught.exception, (KeyError, IndexError, UnicodeError))

    @parameterized.parameters(priors.Hierarchical, priors.KroneckerNormal, priors.Prior)
    def test_a_base_in_the_place_of_a_prior(self, base: Any) -> None:
        for call in (base, lambda: dense(prior=base), lambda: base({})):
            with self.assertRaisesRegex((TypeError, ValueError), base.__name__) as caught:
                call()
            self.assertNotIn("\n", str(caught.exception))

    @parameterized.parameters("BayesGRU", "BayesLSTM", "BayesDense", "VariationalDropout")
    def test_integers_of_numpy(self, name: str) -> None:
        """They are taken, and saved."""
        layer = getattr(layers, name)(np.int64(3), num_data=np.int32(N), seed=np.uint8(1))
        model = keras.Sequential([keras.Input((4, 4) if "Bayes" in name[:5] else (4,)), layer])
        with tempfile.TemporaryDirectory() as folder:
            model.save(f"{folder}/model.keras")
            again = keras.models.load_model(f"{folder}/model.keras").layers[0]
        self.assertEqual(again.get_config(), layer.get_config())
        self.assertEqual(again.units, 3)


class FewTest(parameterized.TestCase):
    def test_bad_calls(self) -> None:
        """Calls that are quick, in this process; `make soak` has all, in processes with bounds."""
        cases = [case for case in all_cases() if not case.slow and case.arguments]
        folder = self.enter_context(tempfile.TemporaryDirectory())
        self.enter_context(mock.patch.dict(os.environ, {"TFBDL_DATA": folder}))
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder)
        for i in range(300):
            with self.subTest(seed=i):
                actual = bad_calls.answer(cases[i % len(cases)], seed=i)
                self.assertTrue(actual.is_right, actual)


class JudgeTest(parameterized.TestCase):
    """Wrong answers are found."""

    def case(self, run: Any) -> Any:
        return Case("f", run, run, {"number": (1, 2)})

    @parameterized.parameters(
        (KeyError("number"), "another error"),
        (RuntimeError("number=3"), "another error"),
        (ValueError("number=3\nis wrong"), "several lines"),
        (ValueError("numbers must be positive"), "names no argument"),
        (AssertionError("a result has shape (2,)"), "wrong shape"),
        (tfbdl.TrainingError("the loss is\nnot finite"), "several lines"),
        (SystemExit(1), "another error"),
        (ValueError("number=3 must be 1"), "refusal"),
        (tfbdl.TrainingError("the loss is not finite"), "refusal"),
    )
    def test_errors(self, error: Any, kind: Any) -> None:
        def run(number: Any) -> None:
            raise error

        self.assertEqual(bad_calls.answer(self.case(run), 0).kind, kind)

    @parameterized.parameters(
        (float("nan"), "not finite"),
        ([1.0, np.array([np.inf])], "not finite"),
        ({"a": tf.constant(float("inf"))}, "not finite"),
        (["text", 1.0], "result"),
    )
    def test_results(self, actual: Any, kind: Any) -> None:
        self.assertEqual(bad_calls.answer(self.case(lambda number: actual), 0).kind, kind)

    def test_calls_that_are_kept_are_not_made_again(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            kept = bad_calls.Path(folder) / "calls.json"
            first = [bad_calls.Answer("result", str(i), "") for i in range(5)]
            made = []

            def of_process(calls: Any) -> Any:
                made.extend(calls)
                return first[: len(calls)]

            with mock.patch.object(bad_calls, "_of_process", of_process):
                self.assertEqual(bad_calls.attack(3, 0, kept=kept), first[:3])
                self.assertEqual(bad_calls.attack(5, 0, kept=kept), [*first[:3], *first[:2]])
        self.assertEqual([seed for _, seed in made], [0, 1, 2, 3, 4])


class BoundedTest(parameterized.TestCase):
    @parameterized.parameters(
        ("memory", 20.0, "more than 2000 MB"),
        ("end", 20.0, "the process ended with 3"),
        ("hang", 0.2, "no answer within 0.2 seconds"),
        ("turn", 0.2, "no answer within 0.2 seconds"),
    )
    def test_bounds(self, task: Any, patience: Any, message: str) -> None:
        given = []
        with (
            mock.patch.object(bounded, "PATIENCE", patience),
            self.assertRaisesRegex(bounded.Gone, f"^{re.escape(message)}$"),
        ):
            for answer in bounded.answers(bounded_tasks.begin, ["a", task, "b"]):
                given.append(answer)
        self.assertEqual(given, ["a"])

    def test_all_answers(self) -> None:
        self.assertEqual(list(bounded.answers(bounded_tasks.begin, ["a", "b"])), ["a", "b"])


if __name__ == "__main__":
    absltest.main()
