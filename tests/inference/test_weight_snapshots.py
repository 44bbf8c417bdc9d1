"""Snapshots of a sampler's weights: which epochs, in memory and on disk, and what they predict."""

import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl.testing import parameterized

import tfbdl
from tfbdl.inference import WeightSnapshots
from tfbdl.npz_file import FORMAT
from tfbdl.optimizers import SGHMC, SGLD, CyclicalSchedule

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 3)).astype("float32")
Y = RNG.normal(size=(24, 1)).astype("float32")


def network(rate: float = 0.01, kind: Any = SGLD) -> Any:
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(4), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((3,)), *layers])
    model.compile(kind(rate, num_data=24, prior=1.0, seed=1), tfbdl.likelihoods.Normal(0.5))
    return model


class Record(keras.callbacks.Callback):
    """All variables after each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: dict[Any, Any] = {}

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.weights[epoch + 1] = self.model.get_weights()


def fit(model: Any, callbacks: Any, epochs: int) -> None:
    model.fit(X, Y, batch_size=8, epochs=epochs, callbacks=callbacks, verbose=0)


def loop(model: Any, callbacks: Any, epochs: int) -> None:
    tfbdl.train(model, X, Y, batch_size=8, epochs=epochs, callbacks=callbacks, verbose=0)


class WeightSnapshotsTest(tf.test.TestCase, parameterized.TestCase):
    def test_is_shown_as_its_call(self) -> None:
        self.assertEqual(repr(WeightSnapshots()), "WeightSnapshots()")
        shown = "WeightSnapshots(start=3, savedir='samples')"
        self.assertEqual(repr(WeightSnapshots(3, savedir="samples")), shown)

    @parameterized.product(train=(fit, loop), on_disk=(False, True))
    def test_members_are_the_networks_of_their_epochs(self, train: Any, on_disk: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            kept = WeightSnapshots(2, 3, savedir=Path(folder) / "s" if on_disk else None)
            record, model = Record(), network()
            train(model, [kept, record], 9)
            self.assertEqual(kept.epochs, [5, 8])
            ensemble = kept.ensemble()
        prediction = tfbdl.predict(ensemble, X, return_samples=True)
        self.assertEqual(prediction.num_samples, 2)
        for member, epoch in enumerate(kept_epochs := (5, 8)):
            model.set_weights(record.weights[epoch])
            self.assertAllClose(prediction.samples[member], model(X, training=False), 1e-5, 1e-6)
        self.assertLen(kept_epochs, prediction.num_samples)
        self.assertAllClose(prediction.aleatoric_stddev, np.full((24, 1), 0.5))

    def test_a_stopped_run_keeps_what_it_had(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)

            def go(epochs: int, where: Any) -> Any:
                kept = WeightSnapshots(savedir=folder / where / "samples")
                arguments = {"batch_size": 8, "callbacks": [kept], "verbose": 0}
                tfbdl.train(
                    network(), X, Y, epochs=epochs, savedir=folder / where / "run", **arguments
                )
                return kept.ensemble()

            whole = go(6, "whole")
            go(4, "stopped")
            resumed = go(6, "stopped")
            self.assertAllClose(resumed.members, whole.members, 1e-6)
            self.assertAllClose(resumed.states, whole.states, 1e-6)
            with self.assertRaisesRegex(ValueError, "^savedir=.*samples of another run"):
                fit(network(), [WeightSnapshots(savedir=folder / "whole" / "samples")], 1)
            kept = WeightSnapshots(savedir=folder / "damaged")
            fit(network(), [kept], 1)
            (sample,) = (folder / "damaged").iterdir()
            with np.load(sample) as file:
                np.savez(sample, **{**file, "format": FORMAT + 1})
            with self.assertRaisesRegex(ValueError, f"format {FORMAT + 1} is of a newer tfbdl"):
                kept.arrays()
            sample.write_bytes(sample.read_bytes()[:99])
            with self.assertRaisesRegex(ValueError, "sample_00000001.npz is not a readable sample"):
                kept.ensemble()

    @parameterized.parameters(SGLD, SGHMC)
    def test_cycles(self, kind: Any) -> None:
        """4 epochs a cycle, 3 steps an epoch; the second half of a cycle samples."""
        schedule = CyclicalSchedule(0.1, 12, exploration=0.5)
        kept = WeightSnapshots()
        fit(network(schedule, kind), [kept], 9)
        self.assertEqual(kept.epochs, [3, 4, 7, 8])

    def test_cycles_of_a_scaled_loss(self) -> None:
        """As Keras scales it for mixed precision."""
        model, kept = network(), WeightSnapshots()
        sampler = SGLD(CyclicalSchedule(0.1, 12, exploration=0.5), num_data=len(X))
        scaled = keras.optimizers.LossScaleOptimizer(sampler, initial_scale=2.0)
        model.compile(scaled, model.loss)
        fit(model, [kept], 9)
        self.assertEqual(kept.epochs, [3, 4, 7, 8])

    def test_cycles_count_batches(self) -> None:
        """Two batches make a step here: 6 batches an epoch, 24 a cycle."""
        schedule = CyclicalSchedule(0.1, 24, exploration=0.5)
        model, kept = network(), WeightSnapshots()
        sampler = SGLD(schedule, num_data=len(X), gradient_accumulation_steps=2)
        model.compile(sampler, model.loss)
        model.fit(X, Y, batch_size=4, epochs=9, callbacks=[kept], verbose=0)
        self.assertEqual(kept.epochs, [3, 4, 7, 8])

    def test_refusals(self) -> None:
        with self.assertRaisesRegex(ValueError, "^start=-1 must be at least 0$"):
            WeightSnapshots(-1)
        with self.assertRaisesRegex(ValueError, "^every=0 must be a positive integer$"):
            WeightSnapshots(0, 0)
        kept = WeightSnapshots(5)
        fit(network(), [kept], 1)
        with self.assertRaisesRegex(ValueError, "^start=5: no epoch has been kept"):
            kept.ensemble()


class CyclicalScheduleTest(tf.test.TestCase, parameterized.TestCase):
    def test_against_the_formula(self) -> None:
        schedule = CyclicalSchedule(0.3, 10, exploration=0.65)
        steps = np.arange(35)
        expected = 0.15 * (1 + np.cos(np.pi * (steps % 10) / 10))
        self.assertAllClose([schedule(int(s)) for s in steps], expected, 1e-6)
        samples = [bool(schedule.samples(int(s))) for s in steps]
        self.assertAllEqual(samples, steps % 10 >= 7)

    def test_no_noise_while_it_explores(self) -> None:
        """Then the step is that of SGD at the schedule's rate."""
        schedule = CyclicalSchedule(0.1, 4, exploration=0.5)
        sampler = SGLD(schedule, num_data=5, seed=0)
        w = keras.Variable(np.ones(100, "float32"))
        sampler.build([w])
        spreads = []
        for _ in range(8):
            sampler.apply([tf.ones(100)], [w])
            spreads.append(w.numpy().std())
        self.assertAllEqual(np.diff(spreads, prepend=0.0) > 1e-4, [0, 0, 1, 1, 0, 0, 1, 1])

    def test_noise_at_every_step(self) -> None:
        schedule = CyclicalSchedule(0.1, 4, exploration=0.0)
        sampler = SGLD(schedule, num_data=5, seed=0)
        w = keras.Variable(np.ones(100, "float32"))
        sampler.build([w])
        before = w.numpy()
        for _ in range(8):
            sampler.apply([tf.ones(100)], [w])
            self.assertGreater((w.numpy() - before).std(), 0.01)
            before = w.numpy()

    @parameterized.parameters(
        ("initial_rate", 0.0), ("steps_per_cycle", 0), ("exploration", 1.0), ("exploration", -0.1)
    )
    def test_arguments(self, name: str, wrong: Any) -> None:
        arguments = {"initial_rate": 0.1, "steps_per_cycle": 5, name: wrong}
        with self.assertRaisesRegex(ValueError, f"^{name}={wrong} must be"):
            CyclicalSchedule(**arguments)


if __name__ == "__main__":
    tf.test.main()
