"""How the KL is weighed: warm-ups, cycles, Blundell's weights of batches, temperature."""

from fractions import Fraction

import keras
import numpy as np
import tensorflow as tf
import two_replicas
from absl.testing import parameterized

import tfbdl
from tfbdl import complexity

N, BATCH = 40, 8
X = np.random.default_rng(0).normal(size=(N, 4)).astype("float32")
Y = np.zeros((N, 2), "float32")


def network(**compile_arguments):
    """A network whose weights stay as they are, so that its KL does."""
    keras.utils.set_random_seed(0)
    layers = [tfbdl.layers.BayesDense(units, num_data=N, seed=units) for units in (3, 2)]
    model = keras.Sequential([keras.Input((4,)), *layers])
    model.compile(keras.optimizers.SGD(0.0), ZeroLoss(), **compile_arguments)
    model(X[:1])
    return model


class ZeroLoss(keras.losses.Loss):
    def call(self, y, f):
        return 0.0 * tf.reduce_sum(f, axis=-1)


def kl_per_example(model):
    model(X[:1])
    return float(sum(model.losses)) / float(tf.convert_to_tensor(complexity.costs(model)[0].weight))


def fit(model, callbacks, epochs):
    arguments = {"epochs": epochs, "batch_size": BATCH, "callbacks": callbacks, "verbose": 0}
    return model.fit(X, Y, **arguments).history["loss"]


def loop(model, callbacks, epochs):
    arguments = {"epochs": epochs, "batch_size": BATCH, "callbacks": callbacks, "verbose": 0}
    return tfbdl.train(model, X, Y, **arguments)["loss"]


TRAINED_BY = (("fit", fit), ("loop", loop))


class KLAnnealingTest(tf.test.TestCase, parameterized.TestCase):
    def weights(self, train, annealing, epochs):
        """Each epoch's mean loss, which is its KL / N, in units of the KL / N."""
        model = network()
        kl = kl_per_example(model)
        return np.array(train(model, [annealing], epochs)) / kl

    @parameterized.named_parameters(*TRAINED_BY)
    def test_linear(self, train):
        got = self.weights(train, tfbdl.KLAnnealing(1, 3), 4)
        self.assertAllClose(got, [0.0, 0.5, 1.0, 1.0], 1e-5, 1e-6)
        got = self.weights(train, tfbdl.KLAnnealing(0, 2), 3)
        self.assertAllClose(got, [0.5, 1.0, 1.0], 1e-5)

    @parameterized.named_parameters(*TRAINED_BY)
    def test_cyclical(self, train):
        got = self.weights(train, tfbdl.KLAnnealing(1, 3, period=4), 9)
        self.assertAllClose(got, [0, 0.5, 1, 1, 0, 0.5, 1, 1, 0], 1e-5, 1e-6)

    @parameterized.named_parameters(*TRAINED_BY)
    def test_temperature(self, train):
        got = self.weights(train, tfbdl.KLAnnealing(0, 2, temperature=0.1), 3)
        self.assertAllClose(got, [0.05, 0.1, 0.1], 1e-5)

    def test_gradients_are_without_kl_at_first(self):
        """With weight 0 the KL pulls at nothing."""
        model = network()
        fit(model, [tfbdl.KLAnnealing(5, 6)], 1)
        variables = [v.value for v in model.trainable_variables]
        with tf.GradientTape() as tape:
            model(X, training=True)
            penalty = tf.add_n(model.losses)
        for gradient in tape.gradient(penalty, variables):
            self.assertAllEqual(gradient, tf.zeros_like(gradient))

    @parameterized.parameters((-1, 3), (3, 3), (4, 3))
    def test_start_and_end_are_checked(self, start, end):
        with self.assertRaisesRegex(ValueError, "^start="):
            tfbdl.KLAnnealing(start, end)

    def test_period_and_temperature_are_checked(self):
        with self.assertRaisesRegex(ValueError, "^period=2 must be at least end=3$"):
            tfbdl.KLAnnealing(1, 3, period=2)
        for wrong in (0, -1.0, float("inf"), "cold"):
            for kind in (lambda t: tfbdl.KLAnnealing(0, 1, temperature=t), minibatch):
                with self.assertRaisesRegex(ValueError, "^temperature=.* must be positive"):
                    kind(wrong)


def minibatch(temperature):
    return tfbdl.MinibatchKL(temperature=temperature)


class MinibatchKLTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(1, 2, 5, 100, 469)
    def test_against_exact_fractions(self, batches):
        """M 2^(M-i) / (2^M - 1) in Python's integers."""
        got = [float(minibatch(1.0).weight(i, batches)) for i in range(batches)]
        expected = [
            float(batches * Fraction(2 ** (batches - i), 2**batches - 1))
            for i in range(1, batches + 1)
        ]
        self.assertAllClose(got, expected, 1e-5, 1e-30)
        self.assertAllClose(np.sum(got), batches, 1e-5)

    @parameterized.parameters(1_000, 10**6, 10**9)
    def test_no_overflow(self, batches):
        weights = [float(minibatch(1.0).weight(i, batches)) for i in (0, 1, 200, batches - 1)]
        self.assertTrue(np.all(np.isfinite(weights)))
        self.assertAllClose(weights[:2], [batches / 2, batches / 4], 1e-6)

    @parameterized.product(
        train=(fit, loop), make=("none", "minibatch", "cold"), replicas=(False, True)
    )
    def test_an_epoch_adds_the_kl_of_the_data_once_a_batch(self, train, make, replicas):
        """The M batches of an epoch add M KL / N in all, whatever the weighting."""
        callbacks = {"none": [], "minibatch": [minibatch(1.0)], "cold": [minibatch(0.5)]}[make]
        if replicas:
            with two_replicas.strategy().scope():
                model = network()
        else:
            model = network()
        kl, batches = kl_per_example(model), N // BATCH
        total = batches * train(model, callbacks, 1)[0]
        temperature = 0.5 if make == "cold" else 1.0
        self.assertAllClose(total, temperature * batches * kl, 1e-4)

    @parameterized.named_parameters(*TRAINED_BY)
    def test_each_batch_has_its_weight(self, train):
        """With SGD on a network of one parameter that feels the KL alone, step by step."""
        model = network()
        rate = 0.01
        model.optimizer = keras.optimizers.SGD(rate)
        model.compile(keras.optimizers.SGD(rate), ZeroLoss())
        kernel = model.layers[0].kernel
        expected = kernel.mu.numpy().astype("float64")
        train(model, [minibatch(1.0)], 1)
        batches = N // BATCH
        for i in range(1, batches + 1):  # the KL's gradient in mu is mu, for the prior N(0, 1)
            pi = 2.0 ** (batches - i) / (2.0**batches - 1.0)
            expected -= rate * batches * pi / N * expected
        self.assertAllClose(kernel.mu.numpy(), expected, 1e-5)

    def test_fit_must_know_the_number_of_batches(self):
        data = tf.data.Dataset.from_generator(
            lambda: iter([(X[:8], Y[:8])] * 3),
            output_signature=(tf.TensorSpec([8, 4]), tf.TensorSpec([8, 2])),
        )
        with self.assertRaisesRegex(ValueError, "^steps_per_epoch=None"):
            network().fit(data, callbacks=[minibatch(1.0)], verbose=0)

    def test_several_steps_in_one_execution_are_refused(self):
        model = network(steps_per_execution=2)
        with self.assertRaisesRegex(ValueError, "^steps_per_execution=2"):
            fit(model, [minibatch(1.0)], 1)


class TemperatureTest(tf.test.TestCase):
    def test_set_kl_weight(self):
        model = network()
        kl = kl_per_example(model)
        tfbdl.set_kl_weight(model, 0.25)
        model(X[:1])
        self.assertAllClose(sum(model.losses), 0.25 * kl, 1e-6)


if __name__ == "__main__":
    tf.test.main()
