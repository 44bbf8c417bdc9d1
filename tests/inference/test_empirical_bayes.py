"""Training by the marginal likelihood, against the exact one of linear regression."""

import contextlib
import functools
import itertools
import tempfile
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl import likelihoods
from tfbdl.inference import EmpiricalBayes, Laplace, NeuralLinear
from tfbdl.training.steps_of_fit import StepsOfFit

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)).astype("float32")
Y = (X @ [[0.8], [-0.3], [0.0]] + 0.5 + RNG.normal(0, 0.4, (40, 1))).astype("float32")

SIZES = {"price": 1, "kind": 3}


def network(units: int = 1, loss: Any = None, **kwargs: Any) -> Any:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(units, **kwargs)])
    loss = likelihoods.Normal(0.7) if loss is None else loss
    model.compile(keras.optimizers.SGD(0.4), loss)
    return model


def fit(model: Any, callback: Any, epochs: int) -> None:
    model.fit(X, Y, batch_size=40, epochs=epochs, callbacks=[callback], verbose=0)


def fit_and_validate(model: Any, callbacks: Any) -> None:
    given = {"validation_data": (X, Y), "batch_size": 40, "epochs": 3}
    model.fit(X, Y, callbacks=callbacks, verbose=0, **given)


def loop(model: Any, callback: Any, epochs: int) -> None:
    arguments = {"batch_size": 40, "callbacks": [callback], "verbose": 0, "jit_compile": False}
    tfbdl.train(model, X, Y, epochs=epochs, **arguments)


class EmpiricalBayesTest(tf.test.TestCase, parameterized.TestCase):
    def test_is_shown_as_its_call(self) -> None:
        laplace = Laplace(network())
        arrays = "x=<array of shape (40, 3)>, y=<array of shape (40, 1)>"
        shown = f"EmpiricalBayes(laplace={laplace!r}, {arrays}, every=3)"
        self.assertEqual(repr(EmpiricalBayes(laplace, X, Y, every=3)), shown)
        batches = tf.data.Dataset.from_tensors((X, Y))
        self.assertRegex(repr(EmpiricalBayes(laplace, batches)), r", x=\w+\)$")

    @parameterized.parameters((fit, "scalar"), (loop, "layerwise"))
    def test_finds_the_best_linear_regression(self, train: Any, prior_structure: Any) -> None:
        """Prior, noise and weights are the best, although the loss has another noise throughout."""
        model = network()
        laplace = Laplace(
            model, subset_of_weights="all", hessian_structure="full", jit_compile=False
        )
        callback = EmpiricalBayes(laplace, X, Y, prior_structure=prior_structure, start=0, every=6)
        train(model, callback, 20)
        exact = NeuralLinear(network(), sigma_noise=1.0).fit(X, Y)
        exact.optimize_prior_precision(prior_structure=prior_structure, with_noise=True)
        self.assertAllClose(laplace.prior_precision, exact.prior_precision, 1e-2)
        self.assertAllClose(laplace.sigma_noise, exact.sigma_noise, 1e-3)
        expected = exact.log_marginal_likelihood()
        self.assertEqual(list(callback.log_marginal_likelihood), [6, 12, 18])
        self.assertAllClose(callback.log_marginal_likelihood[18], expected, 1e-5)
        self.assertAllClose(laplace.log_marginal_likelihood(), expected, 1e-5)

    def test_the_prior_of_classes(self) -> None:
        """At the first epoch the loss is that of the mean cross-entropy and delta / (2 N) |w|^2."""
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model, y = network(3, loss), RNG.integers(0, 3, 40)
        model.fit(X, y, batch_size=40, verbose=0)  # traced without the prior
        weights = model.get_weights()
        delta = np.linspace(1.0, 9.0, 12)
        laplace = Laplace(
            model,
            subset_of_weights="all",
            hessian_structure="diag",
            prior_precision=delta,
            temperature=2.0,
            jit_compile=False,
        )
        callback = EmpiricalBayes(laplace, X, y, start=1)
        fitted = model.fit(X, y, batch_size=40, callbacks=[callback], verbose=0)
        theta = np.concatenate([w.ravel() for w in weights])
        f = X @ weights[0] + weights[1]
        cross_entropy = np.mean(loss(y, f))
        expected = cross_entropy + 2.0 * np.sum(delta * theta**2) / (2 * 40)
        self.assertAllClose(fitted.history["loss"], [expected], 1e-5)
        self.assertAllClose(model.evaluate(X, y, verbose=0), loss(y, model(X)), 1e-5)
        self.assertEqual(callback.log_marginal_likelihood, {})
        after = np.concatenate([w.ravel() for w in model.get_weights()])
        self.assertAllClose(laplace.sample(10_000).mean(axis=0), after, 0, 0.05)

    def test_refusals(self) -> None:
        laplace = Laplace(network())
        for name, wrong in (("start", -1), ("every", 0), ("prior_structure", "kron")):
            with self.assertRaisesRegex(ValueError, f"^{name}="):
                EmpiricalBayes(laplace, X, Y, **{name: wrong})
        decayed = network(kernel_regularizer="l2")
        with self.assertRaisesRegex(ValueError, "kernel' has a regulariser, and the prior would"):
            fit(decayed, EmpiricalBayes(Laplace(decayed), X, Y), 1)
        callback = EmpiricalBayes(laplace, X, Y)
        with self.assertRaisesRegex(ValueError, "^laplace is of model='sequential"):
            fit(network(), callback, 1)
        laplace.model.compile("sgd", "mse")
        with self.assertRaisesRegex(ValueError, "^loss='mse' is not that of laplace; compile"):
            fit(laplace.model, callback, 1)
        summed = network(loss=likelihoods.Normal(0.7, reduction="sum"))
        with self.assertRaisesRegex(ValueError, "^loss='normal' has reduction='sum', beside which"):
            fit(summed, EmpiricalBayes(Laplace(summed), X, Y), 1)

    @parameterized.parameters(
        ({}, True),
        ({"name": "other"}, True),
        ({"price": likelihoods.Normal(0.7, name="other")}, True),
        ({"price": likelihoods.Normal(0.6)}, False),
        ({"kind": likelihoods.Categorical(ignore_class=2)}, False),
        ({"weights": {"price": 2.0, "kind": 1.0}}, False),
    )
    def test_the_law_of_several_outputs(self, change: dict[str, Any], same: bool) -> None:
        """Whether the loss is that of laplace is asked of each output, names aside."""
        x = keras.Input((3,))
        heads = {name: keras.layers.Dense(units, name=name)(x) for name, units in SIZES.items()}
        model = keras.Model(x, heads)
        model.compile("sgd", {"price": likelihoods.Normal(0.7), "kind": likelihoods.Categorical()})
        laws = {"price": likelihoods.Normal(0.7), "kind": likelihoods.Categorical()}
        laws |= {name: law for name, law in change.items() if name in laws}
        others = {name: value for name, value in change.items() if name not in laws}
        callback = EmpiricalBayes(Laplace(model, likelihoods.Joint(laws, **others)), X, Y)
        with contextlib.nullcontext() if same else self.assertRaisesRegex(ValueError, "not that"):
            callback.set_model(model)


class Interrupting(keras.callbacks.Callback):
    """Raises in a place of the second epoch, as Ctrl-C does."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place, self.epoch = place, 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch
        self.interrupt("on_epoch_begin")

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self.interrupt("on_test_batch_end")

    def interrupt(self, place: str) -> None:
        if (place, self.epoch) == (self.place, 1):
            raise KeyboardInterrupt


class InterruptedTest(tf.test.TestCase, parameterized.TestCase):
    """Training that follows on an interrupted one is that of a network without the prior."""

    @parameterized.parameters("on_epoch_begin", "on_test_batch_end", "a step")
    def test_in_fit(self, place: str) -> None:
        model = network()
        callbacks = [self.callback(model), Interrupting(place)]
        if place == "a step":
            self.interrupt_the_second_step(model)
        with self.assertRaises(KeyboardInterrupt):
            fit_and_validate(model, callbacks)
        self.assert_without_prior(model)

    def test_in_the_loop(self) -> None:
        model = network()
        with self.assertRaises(KeyboardInterrupt):
            settings = {"batch_size": 40, "epochs": 3, "verbose": 0, "jit_compile": False}
            callbacks = [self.callback(model), Interrupting("on_epoch_begin")]
            tfbdl.train(model, X, Y, callbacks=callbacks, **settings)
        self.assertEqual(model.losses, [])
        self.assert_without_prior(model)

    @staticmethod
    def callback(model: Any) -> EmpiricalBayes:
        laplace = Laplace(model, subset_of_weights="all", prior_precision=1e3, jit_compile=False)
        return EmpiricalBayes(laplace, X, Y, start=99)

    @staticmethod
    def interrupt_the_second_step(model: Any) -> None:
        made = model.make_train_function

        def make(force: bool = False) -> None:
            made(force)
            whole, count = model.train_function, itertools.count()

            def step(iterator: Any) -> Any:
                if next(count) == 1:
                    raise KeyboardInterrupt
                return whole(iterator)

            if not isinstance(whole, StepsOfFit):
                model.train_function = step

        model.make_train_function = make

    def assert_without_prior(self, model: Any) -> None:
        vars(model).pop("make_train_function", None)
        plain = network()
        plain.set_weights(model.get_weights())
        for one in (model, plain):
            one.fit(X, Y, batch_size=40, epochs=3, verbose=0)
        self.assertAllClose(model.get_weights(), plain.get_weights(), rtol=1e-6)
        self.assertAllClose(
            model.evaluate(X, Y, verbose=0), plain.evaluate(X, Y, verbose=0), rtol=1e-6
        )


class ResumeTest(tf.test.TestCase, parameterized.TestCase):
    """Stopped at `STOP` and taken up by new objects, a run ends as one that was let alone."""

    EPOCHS, STOP = 10, 5

    @staticmethod
    def start(prior_structure: str = "layerwise") -> Any:
        """A network and its callback: searches after the epochs 3, 5, 7, 9."""
        keras.utils.set_random_seed(0)
        layers = [keras.layers.Dense(2, "tanh"), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((3,)), *layers])
        model.compile(keras.optimizers.Adam(0.05), likelihoods.Normal(0.7))
        laplace = Laplace(
            model, subset_of_weights="all", hessian_structure="diag", jit_compile=False
        )
        options = {"prior_structure": prior_structure, "start": 1, "every": 2}
        return model, EmpiricalBayes(laplace, X, Y, **options)

    @classmethod
    def loop(cls, savedir: Any, epochs: int, **kwargs: Any) -> Any:
        model, callback = cls.start(**kwargs)
        arguments = {"batch_size": 8, "savedir": savedir, "verbose": 0, "jit_compile": False}
        tfbdl.train(model, X, Y, epochs=epochs, callbacks=[callback], **arguments)
        return callback

    @classmethod
    @functools.cache
    def whole(cls, prior_structure: Any) -> Any:
        """Let alone; one run for all tests that only look."""
        with tempfile.TemporaryDirectory() as folder:
            return cls.loop(folder, cls.EPOCHS, prior_structure=prior_structure)

    def assert_same(self, got: Any, expected: Any) -> None:
        weights = (c.laplace.model.get_weights() for c in (got, expected))
        for a, b in zip(*weights, strict=True):
            self.assertAllEqual(a, b)
        self.assertAllEqual(got.laplace.prior_precision, expected.laplace.prior_precision)
        self.assertEqual(got.laplace.sigma_noise, expected.laplace.sigma_noise)
        self.assertEqual(got.log_marginal_likelihood, expected.log_marginal_likelihood)
        evidence = [float(c.laplace.log_marginal_likelihood()) for c in (got, expected)]
        self.assertEqual(*evidence)

    @parameterized.product(prior_structure=("scalar", "layerwise", "diag"), stop=(4, 5))
    def test_in_the_loop(self, prior_structure: Any, stop: Any) -> None:
        """Stopped right behind a search, and an epoch before the next."""
        whole = self.whole(prior_structure)
        with tempfile.TemporaryDirectory() as stopped:
            self.loop(stopped, stop, prior_structure=prior_structure)
            resumed = self.loop(stopped, self.EPOCHS, prior_structure=prior_structure)
            self.assertEqual(list(whole.log_marginal_likelihood), [3, 5, 7, 9])
            self.assert_same(resumed, whole)
            finished = self.loop(stopped, self.EPOCHS, prior_structure=prior_structure)
            self.assert_same(finished, whole)

    def test_in_fit(self) -> None:
        """Keras brings back weights and epoch, its user what had been chosen."""
        with tempfile.TemporaryDirectory() as folder:

            def fit(epochs: int, state: Any = None) -> Any:
                model, callback = self.start()
                if state is not None:
                    callback.set_state(state)
                backup = keras.callbacks.BackupAndRestore(folder, delete_checkpoint=False)
                arguments = {"shuffle": False, "verbose": 0, "callbacks": [callback, backup]}
                model.fit(X, Y, 8, epochs, **arguments)
                return callback

            stopped = fit(self.STOP)
            resumed = fit(self.EPOCHS, stopped.get_state())
        model, whole = self.start()
        model.fit(X, Y, 8, self.EPOCHS, shuffle=False, verbose=0, callbacks=[whole])
        self.assert_same(resumed, whole)

    def test_refusals(self) -> None:
        model, callback = self.start()
        with self.assertRaisesRegex(ValueError, "^initial_epoch=5 is behind the search after ep"):
            model.fit(X, Y, epochs=6, initial_epoch=5, callbacks=[callback], verbose=0)
        model.fit(X, Y, epochs=3, initial_epoch=2, callbacks=[callback], verbose=0)
        with tempfile.TemporaryDirectory() as folder:
            self.loop(folder, 1)
            model, callback = self.start()
            arguments = {"batch_size": 8, "savedir": folder, "verbose": 0}
            with self.assertRaisesRegex(
                ValueError, r"holds a run with callbacks=\['EmpiricalBayes'\], not \[\];"
            ):
                tfbdl.train(model, X, Y, epochs=2, **arguments)
            callbacks = [callback, callback]
            with self.assertRaisesRegex(ValueError, r"\], not \['EmpiricalBayes', 'Empi"):
                tfbdl.train(model, X, Y, epochs=2, callbacks=callbacks, **arguments)


if __name__ == "__main__":
    tf.test.main()
