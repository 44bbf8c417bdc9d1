"""SWAG: moments of the path, the law of the draws, statistics of BatchNormalization, resuming."""

import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl import layers
from tfbdl.flat_model import FlatModel
from tfbdl.inference import SWAG, NotFittedError, WeightSnapshots

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)).astype("float32")
Y = (X[:, :1] - 0.5 * X[:, 1:2] + RNG.normal(0, 0.3, (40, 1))).astype("float32")


def network(offset: float = 0.0) -> Any:
    keras.utils.set_random_seed(0)
    hidden = keras.layers.Dense(4, "tanh")
    model = keras.Sequential([keras.Input((3,)), hidden, keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.02), tfbdl.likelihoods.Normal(0.3))
    last = model.layers[-1].bias
    last.assign(last + offset)
    return model


def normalised() -> Any:
    keras.utils.set_random_seed(0)
    stack = [keras.layers.Dense(4), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((3,)), *stack])
    model.compile(keras.optimizers.SGD(0.05), tfbdl.likelihoods.Normal(0.3))
    return model


def fitted(
    model: Any, *, epochs: int = 12, callbacks: Any = (), y: Any = Y, **arguments: Any
) -> Any:
    settings = {"rank": 4, "start": 2, **arguments}
    swag = SWAG(model, jit_compile=False, **settings)
    return swag.fit(X, y, epochs=epochs, batch_size=5, callbacks=callbacks, verbose=0)


class _Peak(keras.callbacks.Callback):
    """The most memory that NumPy's arrays take in a training, in bytes."""

    def on_train_begin(self, logs: Any = None) -> None:
        tracemalloc.start()

    def on_train_end(self, logs: Any = None) -> None:
        self.peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()


class MomentsTest(tf.test.TestCase, parameterized.TestCase):
    def assert_moments(self, swag: Any, thetas: Any, rank: Any) -> None:
        """The moments of all points, and the deviations of the last from the means until then."""
        self.assertAllClose(swag.mean, thetas.mean(axis=0), 1e-12, 1e-12)
        self.assertAllClose(swag.variance, thetas.var(axis=0), 1e-9, 1e-18)
        last = range(len(thetas) - rank, len(thetas))
        by_hand = [thetas[i] - thetas[: i + 1].mean(axis=0) for i in last]
        self.assertAllClose(swag.deviations, by_hand, 1e-6, 1e-12)  # which are in float32

    @parameterized.parameters((1, 4), (2, 3), (1, 20))
    def test_moments_of_the_path(self, every: Any, rank: Any) -> None:
        path = WeightSnapshots(2, every)
        swag = fitted(network(), callbacks=[path], every=every, rank=rank)
        thetas = np.asarray(path.ensemble().members, np.float64)
        self.assertLen(thetas, 10 // every)
        self.assert_moments(swag, thetas, min(rank, len(thetas)))

    def test_large_weights_that_move_little(self) -> None:
        """The moments are added up in float64, whatever the network is computed in."""
        path = WeightSnapshots(2)
        swag = fitted(network(offset=2.0**12), callbacks=[path], y=Y + np.float32(2.0**12))
        thetas = np.asarray(path.ensemble().members, np.float64)
        self.assertGreater(thetas[:, -1].std(), 1e-3)
        self.assert_moments(swag, thetas, 4)

    @parameterized.parameters(3, 6)
    def test_memory_is_that_of_the_deviations(self, num_points: Any) -> None:
        """A path as long as the rank, and one twice as long; beside TensorFlow's own arrays."""
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(300_000)])
        model.add(keras.layers.Dense(1))
        model.compile(keras.optimizers.SGD(1e-6), "mse")
        swag, path = SWAG(model, rank=3), _Peak()
        swag.fit(X, Y, epochs=num_points, callbacks=[path], verbose=0)
        held = swag.deviations.nbytes
        self.assertEqual(held, 4 * 3 * 1_500_001)
        moments = 2 * 8 * 1_500_001
        self.assertBetween(path.peak, held + moments, 1.05 * (held + moments))

    def test_large_arrays_are_added_up_in_parts(self) -> None:
        """The same numbers as of small ones."""
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(300_000)])
        model.compile(keras.optimizers.SGD(0.1), "mse")
        y = RNG.normal(size=(40, 300_000)).astype("float32")
        path = WeightSnapshots()
        swag = SWAG(model, rank=2).fit(X, y, epochs=3, callbacks=[path], verbose=0)
        self.assert_moments(swag, np.asarray(path.arrays()[0], np.float64), 2)

    def test_fit_again_begins_a_path_of_its_own(self) -> None:
        """The network trains on from where it is; what was gathered before does not count."""
        twice = network()
        swag = fitted(twice)
        first = swag.mean
        path = WeightSnapshots(2)
        swag.fit(X, Y, epochs=12, batch_size=5, callbacks=[path], verbose=0)
        self.assertNotAllClose(swag.mean, first)
        self.assert_moments(swag, np.asarray(path.ensemble().members, np.float64), 4)

    def test_a_stopped_run_goes_on(self) -> None:
        arguments = {"batch_size": 5, "verbose": 0}
        whole = SWAG(network(), rank=3, start=1).fit(X, Y, epochs=8, **arguments)
        with tempfile.TemporaryDirectory() as folder:
            SWAG(network(), rank=3, start=1).fit(X, Y, epochs=5, savedir=folder, **arguments)
            resumed = SWAG(network(), rank=3, start=1)
            for _ in range(2):  # a finished run is left as it is
                resumed.fit(X, Y, epochs=8, savedir=folder, **arguments)
                for name in ("mean", "variance", "deviations"):
                    actual, expected = getattr(resumed, name), getattr(whole, name)
                    self.assertAllClose(actual, expected, 1e-6, 1e-9, msg=name)
        self.assertAllClose(resumed.sample(3), whole.sample(3), 1e-5, 1e-6)


class DrawsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(0.5**0.5, 1.0)
    def test_law_of_the_draws(self, scale: Any) -> None:
        """Mean and covariance, scale^2 (diag(var) + D D^T / (K - 1))."""
        swag = fitted(network(), rank=5, scale=scale)
        draws = swag.sample(40_000, seed=3)
        d = swag.deviations
        expected = scale**2 * (np.diag(swag.variance) + d.T @ d / 4)
        error = np.sqrt(np.diag(expected) / len(draws))
        self.assertLess(np.max(np.abs(draws.mean(axis=0) - swag.mean) / error), 5)
        got = np.cov(draws.T)
        error = np.sqrt((np.outer(*[np.diag(expected)] * 2) + expected**2) / len(draws))
        self.assertLess(np.max(np.abs(got - expected) / error), 5)
        stddev = [np.median(s) for s in np.split(np.sqrt(np.diag(expected)), [12, 16, 20])]
        self.assertAllClose([row.stddev for row in swag.summary().rows], stddev, 1e-9)

    def test_predictions_are_those_of_the_draws(self) -> None:
        model = network()
        swag = fitted(model)
        prediction = tfbdl.predict(swag.ensemble(7, seed=2), X, return_samples=True)
        flat = FlatModel(model)
        for theta, outputs in zip(swag.sample(7, seed=2), prediction.samples, strict=True):
            expected = flat(tf.constant(theta, tf.float32), X)
            self.assertAllClose(outputs, expected, 1e-4, 1e-5)

    def test_statistics_of_batch_normalization_are_taken_anew(self) -> None:
        """The moments of each draw's own activations: means over the batches of x."""
        model = normalised()
        swag = fitted(model)
        before = model.get_weights()
        ensembles = swag.ensemble(3, x=X, batch_size=20, seed=1), swag.ensemble(3, seed=1)
        for a, b in zip(before, model.get_weights(), strict=True):
            self.assertAllEqual(a, b)
        for theta, state in zip(swag.sample(3, seed=1), ensembles[0].states.numpy(), strict=True):
            w, b = theta[:12].reshape(3, 4), theta[12:16]
            h = (X @ w + b).reshape(2, 20, 4)
            self.assertAllClose(state[:4], h.mean(axis=1).mean(axis=0), 1e-4, 1e-5)
            self.assertAllClose(state[4:], h.var(axis=1).mean(axis=0), 1e-4, 1e-5)
        same = swag.ensemble(3, x=X, seed=1)  # by default the inputs are those of the fit
        self.assertAllEqual(ensembles[1].states.numpy(), same.states.numpy())
        self.assertEqual(model.layers[1].momentum, 0.99)
        prediction = tfbdl.predict(swag, X, 3, seed=1, verbose=0)
        self.assertAllClose(prediction.mean, tfbdl.predict(same, X, verbose=0).mean, 1e-6)

    def test_frozen_batch_normalization_keeps_its_statistics(self) -> None:
        """As a pretrained body has them; no inputs are needed, nor taken."""
        model = normalised()
        model.layers[1].trainable = False
        model.layers[1].moving_mean.assign([0.1, 0.2, 0.3, 0.4])
        swag = fitted(model)
        path = Path(self.get_temp_dir()) / "swag.keras"
        swag.save(path)
        loaded = tfbdl.load(path)
        means = [tfbdl.predict(s, X, 3, seed=1, verbose=0).mean for s in (swag, loaded)]
        self.assertAllClose(*means, 1e-6)
        [theta] = swag.sample(1, seed=1)
        w, b, v, c = theta[:12].reshape(3, 4), theta[12:16], theta[16:20], theta[20:]
        h = (X @ w + b - np.arange(1.0, 5.0) / 10) / np.sqrt(1 + model.layers[1].epsilon)
        mean = tfbdl.predict(swag.ensemble(1, seed=1), X, verbose=0).mean
        self.assertAllClose(mean[:, 0], h @ v + c, 1e-5, 1e-5)

    def test_a_file_answers_by_the_statistics_of_the_last_draws(self) -> None:
        """The same prediction as before it was saved; of other draws nothing is known."""
        swag = fitted(normalised())
        swag.ensemble(2, seed=0)
        expected = tfbdl.predict(swag, X, 3, seed=-1, verbose=0).mean
        path = Path(self.get_temp_dir()) / "normalised.keras"
        swag.save(path)
        loaded = tfbdl.load(path)
        self.assertAllClose(tfbdl.predict(loaded, X, 3, seed=-1, verbose=0).mean, expected, 1e-6)
        self.assertAllEqual(loaded.ensemble(3, seed=-1).members, swag.sample(3, seed=-1))
        known = r"ask for num_samples=3, seed=18446744073709551615, or give training inputs"
        for other in ({"num_samples": 2, "seed": -1}, {"num_samples": 3, "seed": 0}):
            with self.assertRaisesRegex(ValueError, f"^x=None: layer='batch_nor.*; {known} to"):
                loaded.ensemble(**other)
        loaded.ensemble(2, seed=0, x=X)
        self.assertEqual(tfbdl.predict(loaded, X, 2, seed=0, verbose=0).num_samples, 2)

    def test_inputs_that_are_not_known(self) -> None:
        def examples(epoch: int, context: Any) -> Any:
            return tf.data.Dataset.from_tensor_slices((X, Y))

        swag = SWAG(normalised(), rank=2)
        swag.fit(examples, num_data=40, epochs=3, batch_size=5, verbose=0)
        message = "^x=None: layer='batch_normalization.* give training inputs to ensemble$"
        with self.assertRaisesRegex(ValueError, message):
            tfbdl.predict(swag, X, 3, verbose=0)
        self.assertEqual(swag.ensemble(3, x=X).num_functions, 3)
        with self.assertRaisesRegex(ValueError, "^x is for .* BatchNormalization that trains"):
            fitted(network(), epochs=4).ensemble(3, x=X)


class RefusalTest(tf.test.TestCase):
    def test_arguments(self) -> None:
        for name, wrong in (
            ("rank", 1),
            ("rank", 0),
            ("rank", 2.5),
            ("scale", 0.0),
            ("scale", "wide"),
            ("start", -1),
            ("every", 0),
            ("seed", "one"),
            ("jit_compile", "no"),
        ):
            with self.assertRaisesRegex(ValueError, f"^{name}='?{wrong}"):
                SWAG(network(), **{name: wrong})

    def test_models(self) -> None:
        plain = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)], name="plain")
        random = keras.Sequential([keras.Input((3,)), layers.BayesDense(1, num_data=9)])
        unbuilt = keras.Sequential([keras.layers.Dense(1)])
        for model, message in (
            (plain, "^model=plain is not compiled; call model.compile"),
            (random, "^model=.* has the random layer"),
            (unbuilt, "^model=.* is not built; call it on a batch first$"),
            ("plain", "^model='plain' is no keras.Model"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                SWAG(model)

    def test_a_path_of_one_point(self) -> None:
        swag = SWAG(network(), start=2)
        message = "^start=2 and every=1 leave less than two points of the path; train longer$"
        with self.assertRaisesRegex(ValueError, message):
            swag.fit(X, Y, epochs=3, verbose=0)
        self.assertFalse(swag.is_fitted)

    def test_before_the_fit(self) -> None:
        swag = SWAG(network())
        for name in ("mean", "variance", "deviations"):
            with self.assertRaisesRegex(NotFittedError, f"^{name} needs a fitted SWAG; call fit"):
                getattr(swag, name)


if __name__ == "__main__":
    tf.test.main()
