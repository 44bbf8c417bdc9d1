"""What holds for every method of inference: one way to fit and to ask."""

import contextlib
import copy
import inspect
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized
from every_method import (
    ALL,
    METHODS,
    OF_DATA,
    TRAIN_ON,
    MethodTestCase,
    N,
    X,
    Y,
    asked,
    fitted,
    network,
    networks_in,
    normalised,
    state_of,
    two_inputs,
)

import tfbdl
from tfbdl import inference
from tfbdl.flat_model import FlatModel
from tfbdl.inference import (
    SGMCMC,
    SWAG,
    DeepEnsemble,
    MeanFieldVI,
    Mixture,
    NeuralLinear,
    NotFittedError,
)
from tfbdl.predictive.predict import Request


class MethodTest(MethodTestCase):
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


if __name__ == "__main__":
    tf.test.main()
