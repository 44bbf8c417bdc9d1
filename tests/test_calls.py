"""What one thread's calls leave on layers is not what another's training step reads."""

import threading
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl.calls import OfCall, apart, costs_are_read

N = 12
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).astype("float32")
Y = np.arange(N) % 3


class Kept:
    values = OfCall(list)


def in_thread(function: Any) -> None:
    """Runs it in another thread, to its end; raises what it has raised."""
    raised = []

    def run() -> None:
        try:
            function()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(120)
    assert not thread.is_alive(), "hangs"
    if raised:
        raise raised[0]


class OfCallTest(tf.test.TestCase):
    def test_apart(self) -> None:
        a, b = Kept(), Kept()
        a.values.append(1)
        with apart():
            self.assertEqual((a.values, b.values), ([], []))
            a.values, b.values = [2], [3]
            with apart():
                self.assertEqual(a.values, [])
            in_thread(lambda: self.assertEqual(a.values, [1]))
            self.assertEqual((a.values, b.values), ([2], [3]))
        self.assertEqual((a.values, b.values), ([1], []))

    def test_an_error_ends_it(self) -> None:
        a = Kept()
        with self.assertRaises(RuntimeError), apart():
            a.values = [2]
            raise RuntimeError
        self.assertEqual(a.values, [])
        self.assertTrue(costs_are_read())

    def test_costs(self) -> None:
        self.assertTrue(costs_are_read())
        with apart():
            self.assertFalse(costs_are_read())
            with apart(costs=True):
                self.assertTrue(costs_are_read())
            self.assertFalse(costs_are_read())
            in_thread(lambda: self.assertTrue(costs_are_read()))
        self.assertTrue(costs_are_read())

    def test_predictions_compute_no_cost(self) -> None:
        """The ELBO has a cost, after predictions as before."""
        layer = tfbdl.layers.BayesDense(2, num_data=9, prior=tfbdl.priors.ScaleMixture())
        model = keras.Sequential([keras.Input((4,)), layer])
        model.compile("sgd", tfbdl.likelihoods.Normal(1.0))
        x, y = np.ones((9, 4), "float32"), np.zeros((9, 2), "float32")
        costs = []

        def counted(method: Any) -> Any:
            def call(*args: Any) -> Any:
                costs.append(method)
                return method(*args)

            return call

        posterior = type(layer.kernel)
        counting = mock.patch.object(posterior, "kl", counted(posterior.kl))
        with counting:
            tfbdl.predict(model, x, 2, seed=1, verbose=0)
            tfbdl.predict(model, x, 2, seed=1, return_samples=True, verbose=0)
            tfbdl.predict(model, x, 0, verbose=0)
            self.assertEmpty(costs)
            before = tfbdl.elbo(model, x, y, 2, seed=1)
            self.assertNotEmpty(costs)
        tfbdl.predict(model, x, 2, seed=1, verbose=0)
        after = tfbdl.elbo(model, x, y, 2, seed=1)
        self.assertEqual(before, after)
        self.assertGreater(before.kl, 0.0)


def disturbed(cls: Any) -> Any:
    """A model that lets another thread do something between its forward pass and its loss."""

    class Disturbed(cls):
        meanwhile = staticmethod(lambda: None)

        def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
            in_thread(self.meanwhile)
            return super().compute_loss(*args, **kwargs)

    return Disturbed


def network(*layers: Any) -> Any:
    model = disturbed(keras.Sequential)([keras.Input((4,)), *layers])
    model.compile(
        keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    return model


def autoencoder() -> Any:
    model = disturbed(tfbdl.models.VAE)(2, (3,), seed=1)
    model.compile(keras.optimizers.SGD(0.1))
    model.build((None, 4))
    return model


def data_of(model: Any) -> Any:
    return (tf.sigmoid(X).numpy(),) if isinstance(model, tfbdl.models.VAE) else (X, Y)


MODELS = {
    "dense": lambda: network(tfbdl.layers.BayesDense(3, num_data=N, seed=1)),
    "concrete": lambda: network(
        tfbdl.layers.ConcreteDropout(keras.layers.Dense(3), num_data=N, lengthscale=1.0, seed=1)
    ),
    "recurrent": lambda: network(
        keras.layers.Reshape((2, 2)), tfbdl.layers.BayesLSTM(3, num_data=N, seed=1)
    ),
    "autoencoder": autoencoder,
}
TRAININGS = {
    "fit": lambda model: model.fit(*data_of(model), batch_size=6, epochs=2, verbose=0),
    "eager fit": lambda model: eager(model).fit(*data_of(model), batch_size=6, verbose=0),
    "loop": lambda model: tfbdl.train(
        model, *data_of(model), epochs=2, batch_size=6, verbose=0, jit_compile=False
    ),
}


def eager(model: Any) -> Any:
    model.run_eagerly = True
    return model


class TrainingTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(
        *((name, "fit") for name in MODELS), ("dense", "eager fit"), ("dense", "loop")
    )
    def test_predictions_do_not_disturb_it(self, name: str, by: Any) -> None:
        """The KL of a step would be lost, and of all steps if it is lost while they are traced."""

        def trained(meanwhile: Any) -> Any:
            keras.utils.set_random_seed(0)
            model = MODELS[name]()
            x = data_of(model)[0][:5]
            if meanwhile:
                model.meanwhile = lambda: tfbdl.predict(model, x, 3, seed=0, verbose=0)
            TRAININGS[by](model)
            return model.get_weights()

        for a, b in zip(trained(False), trained(True), strict=True):
            self.assertAllEqual(a, b)


QUESTIONS = {
    "predict": lambda m: tfbdl.predict(m, X[:5], 3, seed=0, verbose=0).mean,
    "elbo": lambda m: np.array(tfbdl.elbo(m, X, Y, 3, seed=0)),
}


class PredictionsTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(("predict", "elbo"), ("elbo", "predict"))
    def test_one_inside_the_other(self, first: Any, second: Any) -> None:
        """A layer between whose call and the use of what it has left comes that of the other."""
        actual: dict[Any, Any] = {}

        def tanh(x: Any) -> Any:
            if not tf.executing_eagerly() and second not in actual:
                actual[second] = None
                in_thread(lambda: actual.update({second: QUESTIONS[second](model)}))
            return tf.tanh(x)

        keras.utils.set_random_seed(0)
        lstm = tfbdl.layers.BayesLSTM(3, tanh, num_data=N, seed=1)
        model = network(keras.layers.Reshape((2, 2)), lstm)
        actual[first] = QUESTIONS[first](model)
        for name, ask in QUESTIONS.items():
            self.assertAllClose(actual[name], ask(model), 1e-6, 1e-6)


if __name__ == "__main__":
    tf.test.main()
