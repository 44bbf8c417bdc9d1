"""Schedules of the KL: warm-ups, cycles, Blundell's weights of batches, and how they end."""

import tempfile
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import two_replicas
from absl.testing import parameterized

import tfbdl
from tfbdl import kl_term

N, BATCH = 40, 8
X = np.random.default_rng(0).normal(size=(N, 4)).astype("float32")
Y = np.zeros((N, 2), "float32")


def network(**compile_arguments: Any) -> Any:
    """A network whose weights stay as they are, so that its KL does."""
    keras.utils.set_random_seed(0)
    layers = [tfbdl.layers.BayesDense(units, num_data=N, seed=units) for units in (3, 2)]
    model = keras.Sequential([keras.Input((4,)), *layers])
    model.compile(keras.optimizers.SGD(0.0), ZeroLoss(), **compile_arguments)
    model(X[:1])
    return model


class ZeroLoss(keras.losses.Loss):
    def call(self, y: Any, f: Any) -> Any:
        return 0.0 * tf.reduce_sum(f, axis=-1)


def kl_per_example(model: Any) -> Any:
    model(X[:1])
    return float(sum(model.losses)) / float(
        tf.convert_to_tensor(kl_term.loss_terms(model)[0].weight)
    )


def fit(model: Any, callbacks: Any, epochs: int) -> Any:
    arguments = {"epochs": epochs, "batch_size": BATCH, "callbacks": callbacks, "verbose": 0}
    return model.fit(X, Y, **arguments).history["loss"]


def loop(model: Any, callbacks: Any, epochs: int) -> Any:
    arguments = {"epochs": epochs, "batch_size": BATCH, "callbacks": callbacks, "verbose": 0}
    return tfbdl.train(model, X, Y, **arguments)["loss"]


TRAINED_BY = (("fit", fit), ("loop", loop))


class ByRate(tfbdl.KLSchedule):
    """A schedule that asks its model."""

    def factor(self, epoch: Any, batch: Any, num_batches: int | None) -> Any:
        return 0.25 + self.model.optimizer.momentum


@pytest.mark.parametrize(("name", "train"), TRAINED_BY)
def test_a_schedule_knows_its_model(name: str, train: Any) -> None:
    model = network()
    each = kl_per_example(model)
    np.testing.assert_allclose(train(model, [ByRate()], 2), [0.25 * each] * 2, rtol=1e-5)


class KLAnnealingTest(tf.test.TestCase, parameterized.TestCase):
    def weights(self, train: Any, annealing: Any, epochs: int) -> Any:
        """Each epoch's mean loss, which is its KL / N, in units of the KL / N."""
        model = network()
        kl = kl_per_example(model)
        return np.array(train(model, [annealing], epochs)) / kl

    @parameterized.named_parameters(*TRAINED_BY)
    def test_linear(self, train: Any) -> None:
        got = self.weights(train, tfbdl.KLAnnealing(1, 3), 4)
        self.assertAllClose(got, [0.0, 0.5, 1.0, 1.0], 1e-5, 1e-6)
        got = self.weights(train, tfbdl.KLAnnealing(0, 2), 3)
        self.assertAllClose(got, [0.5, 1.0, 1.0], 1e-5)

    @parameterized.named_parameters(*TRAINED_BY)
    def test_cyclical(self, train: Any) -> None:
        got = self.weights(train, tfbdl.KLAnnealing(1, 3, period=4), 9)
        self.assertAllClose(got, [0, 0.5, 1, 1, 0, 0.5, 1, 1, 0], 1e-5, 1e-6)

    @parameterized.named_parameters(*TRAINED_BY)
    def test_it_multiplies_the_weight_that_the_user_has_set(self, train: Any) -> None:
        model = network()
        kl = kl_per_example(model)
        tfbdl.set_kl_weight(model, 0.1)
        got = np.array(train(model, [tfbdl.KLAnnealing(0, 2)], 3)) / kl
        self.assertAllClose(got, [0.05, 0.1, 0.1], 1e-5)

    @parameterized.named_parameters(*TRAINED_BY)
    def test_two_schedules_multiply(self, train: Any) -> None:
        model = network()
        kl = kl_per_example(model)
        got = np.array(train(model, [tfbdl.KLAnnealing(0, 2), tfbdl.MinibatchKL()], 3)) / kl
        self.assertAllClose(got, [0.5, 1.0, 1.0], 1e-4)

    def test_gradients_are_without_kl_at_first(self) -> None:
        """The KL has weight 0, and pulls at nothing."""
        model = network()
        model.compile(keras.optimizers.SGD(1.0), ZeroLoss())
        before = [w.numpy() for w in model.trainable_variables]
        fit(model, [tfbdl.KLAnnealing(5, 6)], 1)
        for weight, was in zip(model.trainable_variables, before, strict=True):
            self.assertAllEqual(weight, was)

    @parameterized.named_parameters(*TRAINED_BY)
    def test_a_model_without_a_kl_is_refused(self, train: Any) -> None:
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)], name="plain")
        model.compile("sgd", "mse")
        with self.assertRaisesRegex(
            ValueError, "KLAnnealing, but model='plain' has no layer with a KL"
        ):
            train(model, [tfbdl.KLAnnealing(0, 2)], 1)

    @parameterized.parameters((-1, 3), (3, 3), (4, 3))
    def test_start_and_end_are_checked(self, start: Any, end: Any) -> None:
        with self.assertRaisesRegex(ValueError, "^start="):
            tfbdl.KLAnnealing(start, end)

    def test_period_is_checked(self) -> None:
        with self.assertRaisesRegex(ValueError, "^period=2 must be at least end=3$"):
            tfbdl.KLAnnealing(1, 3, period=2)


class MinibatchKLTest(tf.test.TestCase, parameterized.TestCase):
    @parameterized.parameters(1, 2, 5, 100, 469)
    def test_against_exact_fractions(self, batches: Any) -> None:
        """M 2^(M-i) / (2^M - 1) in Python's integers."""
        got = [float(tfbdl.MinibatchKL().factor(0, i, batches)) for i in range(batches)]
        expected = [
            float(batches * Fraction(2 ** (batches - i), 2**batches - 1))
            for i in range(1, batches + 1)
        ]
        self.assertAllClose(got, expected, 1e-5, 1e-30)
        self.assertAllClose(np.sum(got), batches, 1e-5)

    @parameterized.parameters(1_000, 10**6, 10**9)
    def test_no_overflow(self, batches: Any) -> None:
        weights = [
            float(tfbdl.MinibatchKL().factor(0, i, batches)) for i in (0, 1, 200, batches - 1)
        ]
        self.assertTrue(np.all(np.isfinite(weights)))
        self.assertAllClose(weights[:2], [batches / 2, batches / 4], 1e-6)

    @parameterized.product(
        train=(fit, loop), make=("none", "minibatch", "cold"), replicas=(False, True)
    )
    def test_an_epoch_adds_the_kl_of_the_data_once_a_batch(
        self, train: Any, make: Any, replicas: Any
    ) -> None:
        """The M batches of an epoch add M KL / N in all, whatever the weighting."""
        callbacks = [] if make == "none" else [tfbdl.MinibatchKL()]
        temperature = 0.5 if make == "cold" else 1.0
        if replicas:
            with two_replicas.strategy().scope():
                model = network()
        else:
            model = network()
        kl, batches = kl_per_example(model), N // BATCH
        tfbdl.set_kl_weight(model, temperature)
        total = batches * train(model, callbacks, 1)[0]
        self.assertAllClose(total, temperature * batches * kl, 1e-4)

    @parameterized.named_parameters(*TRAINED_BY)
    def test_each_batch_has_its_weight(self, train: Any) -> None:
        """SGD on a network of one parameter that feels the KL alone, step by step."""
        model = network()
        rate = 0.01
        model.optimizer = keras.optimizers.SGD(rate)
        model.compile(keras.optimizers.SGD(rate), ZeroLoss())
        kernel = model.layers[0].kernel
        expected = kernel.mu.numpy().astype("float64")
        train(model, [tfbdl.MinibatchKL()], 1)
        batches = N // BATCH
        for i in range(1, batches + 1):  # the KL's gradient in mu is mu, for the prior N(0, 1)
            pi = 2.0 ** (batches - i) / (2.0**batches - 1.0)
            expected -= rate * batches * pi / N * expected
        self.assertAllClose(kernel.mu.numpy(), expected, 1e-5)

    def test_fit_must_know_the_number_of_batches(self) -> None:
        data = tf.data.Dataset.from_generator(
            lambda: iter([(X[:8], Y[:8])] * 3),
            output_signature=(tf.TensorSpec([8, 4]), tf.TensorSpec([8, 2])),
        )
        with self.assertRaisesRegex(ValueError, "^steps_per_epoch=None"):
            network().fit(data, callbacks=[tfbdl.MinibatchKL()], verbose=0)

    def test_several_steps_in_one_execution_are_refused(self) -> None:
        model = network(steps_per_execution=2)
        with self.assertRaisesRegex(ValueError, "^steps_per_execution=2"):
            fit(model, [tfbdl.MinibatchKL()], 1)


class Stop(keras.callbacks.Callback):
    """Ends training in the second epoch, in one of the ways in which it can end."""

    def __init__(self, how: Any) -> None:
        super().__init__()
        self.how = how

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch
        if epoch == 1 and self.how == "epoch_begin":
            raise RuntimeError("mine")

    def on_train_batch_begin(self, batch: Any, logs: Any = None) -> None:
        if self.epoch == 1 and batch == 2 and self.how == "batch_begin":
            raise KeyboardInterrupt

    def on_train_batch_end(self, batch: Any, logs: Any = None) -> None:
        if self.epoch == 1 and batch == 2 and self.how == "batch_end":
            raise KeyboardInterrupt

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch == 1 and self.how == "epoch_end":
            raise RuntimeError("mine")
        if epoch == 1 and self.how == "early_stop":
            self.model.stop_training = True


class Quarter(tfbdl.KLSchedule):
    """A schedule of one's own, which never comes to 1."""

    def factor(self, epoch: int, batch: Any, num_batches: Any) -> Any:
        return 0.25


SCHEDULES = (lambda: tfbdl.KLAnnealing(0, 5), tfbdl.MinibatchKL, Quarter)
ENDS = ("none", "early_stop", "epoch_begin", "epoch_end")


class EndTest(tf.test.TestCase, parameterized.TestCase):
    """What a schedule does ends with the training, however that ends."""

    def check(self, train: Any, schedule: Any, how: Any, data: Any = None) -> None:
        model = network()
        kl = kl_per_example(model)
        tfbdl.set_kl_weight(model, 0.5)
        try:
            if data is None:
                train(model, [schedule(), Stop(how)], 3)
            else:
                model.fit(data, callbacks=[schedule()], steps_per_epoch=N // BATCH, verbose=0)
        except (RuntimeError, KeyboardInterrupt, tf.errors.OpError):
            pass
        evaluate = {"batch_size": BATCH, "verbose": 0}
        self.assertAllClose(model.evaluate(X, Y, **evaluate), 0.5 * kl, 1e-5)
        with tempfile.TemporaryDirectory() as folder:
            model.save(f"{folder}/m.keras")
            saved = keras.models.load_model(
                f"{folder}/m.keras", custom_objects={"ZeroLoss": ZeroLoss}
            )
        saved(X[:BATCH])
        self.assertAllClose(sum(saved.losses), 0.5 * kl, 1e-5)
        self.assertAllClose(model.train_on_batch(X[:BATCH], Y[:BATCH]), 0.5 * kl, 1e-5)
        self.assertAllClose(train(model, [], 1), [0.5 * kl], 1e-5)

    @parameterized.parameters(
        *((Quarter, how) for how in (*ENDS, "batch_begin", "batch_end")),
        *((schedule, "epoch_end") for schedule in SCHEDULES[:2]),
    )
    def test_fit(self, schedule: Any, how: Any) -> None:
        self.check(fit, schedule, how)

    @parameterized.parameters(
        *((Quarter, how) for how in ENDS), (SCHEDULES[0], "epoch_end"), (SCHEDULES[1], "epoch_end")
    )
    def test_loop(self, schedule: Any, how: Any) -> None:
        self.check(loop, schedule, how)

    @parameterized.parameters((Quarter,))
    def test_data_that_raise(self, schedule: Any) -> None:
        def batches() -> Iterator[Any]:
            yield from [(X[:BATCH], Y[:BATCH])] * 3
            raise RuntimeError("mine")

        shapes = (tf.TensorSpec([BATCH, 4]), tf.TensorSpec([BATCH, 2]))
        self.check(
            fit, schedule, "", tf.data.Dataset.from_generator(batches, output_signature=shapes)
        )

    @parameterized.parameters(*SCHEDULES)
    def test_validation_has_the_weight_of_the_user(self, schedule: Any) -> None:
        model = network()
        kl = kl_per_example(model)
        history = model.fit(
            X,
            Y,
            batch_size=BATCH,
            epochs=3,
            callbacks=[schedule()],
            verbose=0,
            validation_data=(X, Y),
        )
        self.assertAllClose(history.history["val_loss"], [kl] * 3, 1e-5)

    def test_the_same_schedule_again(self) -> None:
        model = network()
        kl = kl_per_example(model)
        annealing = tfbdl.KLAnnealing(0, 2)
        for _ in range(2):
            self.assertAllClose(fit(model, [annealing], 2), [0.5 * kl, kl], 1e-5)

    def test_reports_beside_it(self) -> None:
        """`ELBOLogger` takes the weighted KL out of the loss, whatever the schedule."""
        for schedule in SCHEDULES:
            for both in ([tfbdl.ELBOLogger(), schedule()], [schedule(), tfbdl.ELBOLogger()]):
                model = network()
                kl = kl_per_example(model)
                arguments = {"epochs": 2, "batch_size": BATCH, "verbose": 0}
                history = model.fit(X, Y, callbacks=both, **arguments).history
                self.assertAllClose(history["nll"], [0.0, 0.0], atol=1e-5)
                self.assertAllClose(history["kl_per_example"], [kl] * 2, 1e-5)


class WeightTest(tf.test.TestCase):
    def test_set_kl_weight(self) -> None:
        model = network()
        kl = kl_per_example(model)
        tfbdl.set_kl_weight(model, 0.25)
        model(X[:1])
        self.assertAllClose(sum(model.losses), 0.25 * kl, 1e-6)


if __name__ == "__main__":
    tf.test.main()
