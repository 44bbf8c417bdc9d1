"""A run that was killed, interrupted or poisoned, and taken up again."""

import contextlib
import itertools
import multiprocessing
import os
import random
import re
import signal
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfbdl
from tfbdl.training.run import open_run

N, BATCH, EPOCHS = 50, 16, 6
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).astype("float32")
Y = np.argmax(X @ RNG.normal(size=(4, 3)), axis=1)

# Processes are forked off one that has TensorFlow imported but not started.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tfbdl"])


def compiled(layers: Any, optimizer: Any) -> Any:
    model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(3)])
    model.compile(
        optimizer,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy(name="acc")],
    )
    return model


def all_noise() -> Any:
    """Every kind of state: package seeds, Keras seeds, statistics, schedule, Adam's moments."""
    rate = keras.optimizers.schedules.PiecewiseConstantDecay([8], [0.01, 0.001])
    layers = [
        tfbdl.layers.BayesDense(8, "tanh", num_data=N),
        tfbdl.layers.MCDropout(0.2),
        tfbdl.layers.ConcreteDropout(
            keras.layers.Dense(6), num_data=N, per_unit=True, lengthscale=2.0, logit_scale=10.0
        ),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.2),
    ]
    return compiled(layers, keras.optimizers.Adam(rate))


def dropout() -> Any:
    layers = [
        keras.layers.Dense(8, "tanh", kernel_regularizer="l2"),
        tfbdl.layers.MCDropout(0.2),
        keras.layers.Dropout(0.2),
    ]
    return compiled(layers, keras.optimizers.SGD(0.05, momentum=0.9))


def plain(units: int = 8, optimizer: Any = None) -> Any:
    return compiled([keras.layers.Dense(units, "tanh")], optimizer or keras.optimizers.Adam(0.01))


def state(model: Any) -> Any:
    return [np.array(v.value) for v in (*model.variables, *model.optimizer.variables)]


def train(model: Any, folder: Any, epochs: Any = EPOCHS, **kwargs: Any) -> Any:
    arguments = {"batch_size": BATCH, "seed": 7, "verbose": 0, "jit_compile": False, **kwargs}
    x, y = arguments.pop("x", X), arguments.pop("y", Y)
    return tfbdl.train(model, x, y, epochs=epochs, savedir=folder, **arguments)


def without_seconds(folder: Any) -> Any:
    text = (Path(folder) / "train.log").read_text()
    return re.sub(r"\(\d+\.\d{3} secs\)", "(secs)", text)


def contents(folder: Any) -> Any:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def stamps(folder: Any) -> Any:
    return {path.name: path.stat().st_mtime_ns for path in Path(folder).iterdir()}


def process(
    make: Any, folder: Any, seed: int, kill_event: Any = None, kill_delay: Any = None, **kwargs: Any
) -> None:
    """One process of a run: it may die by its own hand, at an event or at a time.

    Events are the beginning and end of each epoch, of each flush to the disk and each renaming.
    """
    events = itertools.count(1)

    def event(*_: Any) -> None:
        if next(events) == kill_event:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(function: Any) -> Any:
        def call(*args: Any) -> None:
            event()
            function(*args)
            event()

        return call

    os.fsync, os.replace = watched(os.fsync), watched(os.replace)
    keras.utils.set_random_seed(seed)
    callback = keras.callbacks.LambdaCallback(on_epoch_begin=event, on_epoch_end=event)
    if kill_delay is not None:
        death = threading.Timer(kill_delay, os.kill, (os.getpid(), signal.SIGKILL))

        def doom(*_: Any) -> None:
            if not death.is_alive():
                death.start()

        callback.on_epoch_end = doom
    model = make()
    train(model, folder, callbacks=[callback], **kwargs)
    np.savez(Path(folder).with_suffix(".npz"), *state(model))
    if kill_delay is not None:
        death.cancel()


def run_process(*args: Any, **kwargs: Any) -> Any:
    child = CONTEXT.Process(target=process, args=args, kwargs=kwargs)
    child.start()
    child.join(120)
    return child.exitcode


UNBROKEN: dict[Any, Any] = {}


class ResumeCase(tf.test.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enter_context(tempfile.TemporaryDirectory()))
        self.run = self.folder / "run"

    def new(self, make: Any = plain, seed: int = 1, **kwargs: Any) -> Any:
        keras.utils.set_random_seed(seed)
        return make(**kwargs)

    def assert_same_state(self, got: Any, expected: Any) -> None:
        for a, b in zip(got, expected, strict=True):
            self.assertEqual(a.dtype, b.dtype)
            self.assertEqual(a.tobytes(), b.tobytes())

    def assert_whole_epochs(self, folder: Any, epochs: int) -> None:
        """The log has the epochs 1 to `epochs`, each once, and nothing behind them."""
        text = (Path(folder) / "train.log").read_text()
        number = r"-?\d+\.\d{6}"
        expected = "".join(
            rf"\nEpoch {i} start, learning rate {number}\n"
            rf"train: epoch {i}, \(\d+\.\d{{3}} secs\), [^\n]* {number}\n"
            for i in range(1, epochs + 1)
        )
        self.assertRegex(text, rf"\A{expected}\Z")

    def unbroken(self, make: Any = plain, epochs: Any = EPOCHS, **kwargs: Any) -> Any:
        """State and log of a run that was let alone."""
        known = (make, epochs)
        if kwargs or known not in UNBROKEN:
            model = self.new(make)
            folder = self.folder / f"unbroken_{make.__name__}"
            train(model, folder, epochs, **kwargs)
            result = state(model), without_seconds(folder)
            if kwargs:
                return result
            UNBROKEN[known] = result
        return UNBROKEN[known]


class KillTest(ResumeCase):
    """SIGKILL, in processes of their own, until the run is done."""

    def chain(self, name: str, make: Any, kills: Any, **kwargs: Any) -> Any:
        """Kills run `name` as told, then lets it finish; returns the exit codes."""
        codes = []
        for seed, kill in enumerate([*kills, {}], start=1):
            code = run_process(make, str(self.folder / name), seed, **kwargs, **kill)
            codes.append(code)
            if code != -signal.SIGKILL:
                break
        return codes

    def check(self, make: Any, kills: Any, **kwargs: Any) -> None:
        with ThreadPoolExecutor(2) as pool:
            once = pool.submit(self.chain, "once", make, [], **kwargs)
            killed = pool.submit(self.chain, "killed", make, kills, **kwargs)
            self.assertEqual(once.result(), [0])
            codes = killed.result()
        self.assertEqual(codes[-1], 0)
        self.assertGreater(len(codes), 2, "too few kills came before the end")
        self.assertEqual(
            without_seconds(self.folder / "killed"), without_seconds(self.folder / "once")
        )
        self.assert_whole_epochs(self.folder / "killed", kwargs["epochs"])
        with np.load(self.folder / "once.npz") as a, np.load(self.folder / "killed.npz") as b:
            self.assert_same_state([b[name] for name in b.files], [a[name] for name in a.files])

    def test_at_events(self) -> None:
        """Between two calls that touch the disk; 12 events an epoch, 6 before the first."""
        generator = random.Random(1)
        events = [generator.randint(5, 30) for _ in range(3)]
        self.check(all_noise, [{"kill_event": event} for event in events], epochs=EPOCHS)

    def test_at_random_times(self) -> None:
        """Some ten milliseconds after the first epoch that a process finished."""
        generator = random.Random(2)
        kills = [{"kill_delay": generator.uniform(0, 0.03)} for _ in range(3)]
        self.check(dropout, kills, epochs=60, jit_compile=True)


class EveryMomentTest(ResumeCase):
    """What a kill at any moment would leave on the disk, taken up again."""

    EPOCHS = 3

    def snapshots(self, run: Any) -> Any:
        """The different states of the folder that `run()` goes through."""
        states: dict[Any, Any] = {}

        def look() -> None:
            if self.run.is_dir():
                files = contents(self.run)
                key = tuple(
                    sorted((re.sub(r"-\w+\.tmp", ".tmp", k), masked(v)) for k, v in files.items())
                )
                states.setdefault(key, files)

        def watched(function: Any) -> Any:
            def call(*args: Any) -> None:
                look()
                function(*args)
                look()

            return call

        with (
            mock.patch("os.fsync", watched(os.fsync)),
            mock.patch("os.replace", watched(os.replace)),
        ):
            run()
        return list(states.values())

    def resume(self, files: Any, name: str) -> Any:
        folder = self.folder / name
        folder.mkdir()
        for file, data in files.items():
            (folder / file).write_bytes(data)
        model = self.new(seed=99)
        train(model, folder, self.EPOCHS)
        return model, folder

    def test_all(self) -> None:
        expected, log = self.unbroken(epochs=self.EPOCHS)
        states = self.snapshots(lambda: train(self.new(), self.run, self.EPOCHS))
        self.assertGreater(len(states), 4 * self.EPOCHS)
        two_late = next(
            s for s in states if s["train.log"].count(b"train:") == 2 and "checkpoint.npz" in s
        )
        litter = set()
        for i, files in enumerate(states):
            with self.subTest(moment=i, files={k: len(v) for k, v in files.items()}):
                if "checkpoint.npz" not in files:
                    self.check_restart(files, f"run_{i}")
                    continue
                model, folder = self.resume(files, f"run_{i}")
                self.assertEqual(without_seconds(folder), log)
                self.assert_same_state(state(model), expected)
                litter |= set(os.listdir(folder))
        with self.subTest("what killed processes left half-written is gone"):
            self.assertEqual(litter, {"checkpoint.npz", "train.log"})
        with self.subTest("a torn line"):
            text = two_late["train.log"]
            for cut in (1, 20, 60):
                torn = {**two_late, "train.log": text[: text.rindex(b"train:") + cut]}
                model, folder = self.resume(torn, f"torn_{cut}")
                self.assertEqual(without_seconds(folder), log)
                self.assert_same_state(state(model), expected)

    def check_restart(self, files: Any, name: str) -> None:
        """Before the first checkpoint nothing is worth keeping: the run starts anew."""
        _, folder = self.resume(files, name)
        self.assert_whole_epochs(folder, self.EPOCHS)

    def test_killed_while_it_is_taken_up(self) -> None:
        """The log is ahead of the checkpoint, and the process that cuts it back dies as well."""
        expected, log = self.unbroken(epochs=self.EPOCHS)
        with (
            mock.patch("tfbdl.training.run.checkpoint.save", Failing(at=3)),
            contextlib.suppress(KeyboardInterrupt),
        ):
            train(self.new(), self.run, self.EPOCHS)
        self.assert_whole_epochs(self.run, 2)
        states = self.snapshots(lambda: train(self.new(seed=5), self.run, self.EPOCHS))
        for i, files in enumerate(states[:4]):
            with self.subTest(moment=i, files={k: len(v) for k, v in files.items()}):
                model, folder = self.resume(files, f"run_{i}")
                self.assertEqual(without_seconds(folder), log)
                self.assert_same_state(state(model), expected)


def masked(data: Any) -> Any:
    return re.sub(rb"\(\d+\.\d{3} secs\)", b"(secs)", data) if data[:2] != b"PK" else data


class Failing:
    """`checkpoint.save` that fails at its n-th call, before it has done anything."""

    def __init__(self, at: Any, error: Any = KeyboardInterrupt) -> None:
        self.save = tfbdl.training.checkpoint.save
        self.at, self.error, self.calls = at, error, 0

    def __call__(self, *args: Any) -> None:
        self.calls += 1
        if self.calls == self.at:
            raise self.error
        self.save(*args)


class ExactTest(ResumeCase):
    """Resumed in this process; a fresh model with other weights and seeds each time."""

    def check(self, make: Any, **kwargs: Any) -> None:
        expected, log = self.unbroken(make, **kwargs)
        train(self.new(make), self.run, 2, **kwargs)
        model = self.new(make, seed=3)
        history = train(model, self.run, **kwargs)
        self.assertEqual({len(values) for values in history.values()}, {EPOCHS - 2})
        self.assertEqual(without_seconds(self.run), log)
        self.assert_same_state(state(model), expected)

    def test_vae(self) -> None:
        def vae() -> Any:
            model = tfbdl.models.VAE(1, (4,), binarize="dynamic")
            model.compile(keras.optimizers.Adam(0.01))
            return model

        self.check(vae, x=(X > 0).astype("float32"), y=None, columns=["elbo"])

    def test_model_without_weights_yet(self) -> None:
        def unbuilt() -> Any:
            model = keras.Sequential([keras.layers.Dense(8), keras.layers.Dense(3)])
            model.compile("rmsprop", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            return model

        self.check(unbuilt)

    def test_mixed_precision(self) -> None:
        """The loss scale is state as well."""
        keras.config.set_dtype_policy("mixed_float16")
        self.addCleanup(keras.config.set_dtype_policy, "float32")
        self.check(plain, seed=8)

    def test_learning_rate_scheduler_and_annealing(self) -> None:
        callbacks = [
            keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.02 / (epoch + 1)),
            tfbdl.KLAnnealing(1, 5),
        ]

        def concrete() -> Any:
            layer = tfbdl.layers.ConcreteDropout(
                keras.layers.Dense(6), num_data=N, lengthscale=2.0, logit_scale=10.0
            )
            return compiled([layer], keras.optimizers.Adam(0.01))

        self.check(concrete, callbacks=callbacks)
        log = tfbdl.read_log(self.run / "train.log")
        expected = [round(0.02 / i, 6) for i in range(1, EPOCHS + 1)]
        self.assertEqual(log.learning_rates.tolist(), expected)

    def test_rate_halved_by_a_callback(self) -> None:
        """A rate that depends on the rate before: the optimizer's own one is kept."""
        halve = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
        self.check(plain, callbacks=[halve])

    def test_epochs_are_numbered_on(self) -> None:
        train(self.new(), self.run, 2)
        seen = []
        note = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: seen.append(epoch))
        train(self.new(), self.run, 4, callbacks=[note])
        self.assertEqual(seen, [2, 3])

    def test_the_model_that_was_interrupted_goes_on(self) -> None:
        """As in a notebook: the same object, which holds half an epoch too much."""
        expected, log = self.unbroken(dropout)

        def interrupt(epoch: int, logs: Any) -> None:
            if epoch == 3:
                raise KeyboardInterrupt

        model = self.new(dropout)
        with self.assertRaises(KeyboardInterrupt):
            callback = keras.callbacks.LambdaCallback(on_epoch_end=interrupt)
            train(model, self.run, callbacks=[callback])
        self.assert_whole_epochs(self.run, 3)
        train(model, self.run)
        self.assertEqual(without_seconds(self.run), log)
        self.assert_same_state(state(model), expected)

    def test_stop_training_then_on(self) -> None:
        expected, log = self.unbroken()

        def stop(epoch: int, logs: Any) -> None:
            model.stop_training = epoch == 1

        model = self.new()
        train(model, self.run, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=stop)])
        self.assert_whole_epochs(self.run, 2)
        model = self.new(seed=2)
        train(model, self.run)
        self.assertEqual(without_seconds(self.run), log)
        self.assert_same_state(state(model), expected)


class LogAheadTest(ResumeCase):
    """The epoch's line is written and its checkpoint is not."""

    def check(self, error: Any) -> None:
        expected, log = self.unbroken()
        with (
            mock.patch("tfbdl.training.run.checkpoint.save", Failing(at=4, error=error)),
            self.assertRaises(error),
        ):
            train(self.new(), self.run)
        self.assert_whole_epochs(self.run, 3)
        model = self.new(seed=2)
        train(model, self.run)
        self.assert_whole_epochs(self.run, EPOCHS)
        self.assertEqual(without_seconds(self.run), log)
        self.assert_same_state(state(model), expected)

    def test_interrupted(self) -> None:
        self.check(KeyboardInterrupt)

    def test_disk_full(self) -> None:
        self.check(OSError)

    def test_disk_full_at_the_start(self) -> None:
        with (
            mock.patch("tfbdl.training.run.checkpoint.save", Failing(at=1, error=OSError)),
            self.assertRaises(OSError),
        ):
            train(self.new(), self.run)
        expected, log = self.unbroken()
        model = self.new()
        train(model, self.run)
        self.assertEqual(without_seconds(self.run), log)
        self.assert_same_state(state(model), expected)


class FinishedTest(ResumeCase):
    def test_again(self) -> None:
        """Nothing happens, and the model is the trained one."""
        first = self.new()
        train(first, self.run)
        files, times = contents(self.run), stamps(self.run)
        for epochs in (EPOCHS, 2):
            model = self.new(seed=2)
            self.assertEqual(train(model, self.run, epochs), {})
            self.assert_same_state(state(model), state(first))
            self.assertEqual(contents(self.run), files)
            self.assertEqual(stamps(self.run), times)

    def test_more_epochs(self) -> None:
        expected, log = self.unbroken()
        train(self.new(), self.run, EPOCHS - 2)
        model = self.new(seed=2)
        history = train(model, self.run, EPOCHS)
        self.assertEqual(len(history["loss"]), 2)
        self.assertEqual(without_seconds(self.run), log)
        self.assert_same_state(state(model), expected)


class OwnLoopTest(ResumeCase):
    """A loop of one's own, whose settings are none of those that `train` has."""

    def run_epoch(self, model: Any, number: int, **settings: Any) -> int:
        """One more epoch, and how many there were before it."""
        with open_run(model, self.folder, settings, lambda text: None) as run:
            before = run.epochs_done
            model.layers[0].kernel.assign(np.full((4, 8), number))
            run.start(number, 0.1)
            run.end(number, 1.0, {"loss": 2.0})
        return before

    def test_is_taken_up(self) -> None:
        self.assertEqual(self.run_epoch(plain(), 1, steps=3), 0)
        model = plain()
        with open_run(model, self.folder, {"steps": 3}, lambda text: None) as run:
            self.assertEqual(run.epochs_done, 1)
            self.assertAllEqual(model.layers[0].kernel, np.ones((4, 8)))
        self.assertEqual(self.run_epoch(plain(), 2, steps=3), 1)
        with self.assertRaisesRegex(ValueError, "holds a run with steps=3, not 4; name another"):
            self.run_epoch(plain(), 3, steps=4)


class OtherRunTest(ResumeCase):
    def setUp(self) -> None:
        super().setUp()
        train(self.new(), self.run, 2)
        self.files = contents(self.run)

    def refuse(
        self, pattern: str, model: Any = None, error: Any = ValueError, **kwargs: Any
    ) -> Any:
        model = model or self.new(seed=2)
        before = model.get_weights()
        with self.assertRaisesRegex(error, pattern) as caught:
            train(model, self.run, 4, **kwargs)
        self.assertNotIn("\n", str(caught.exception))
        self.assertEqual(contents(self.run), self.files)
        return model, before

    def refuse_untouched(self, *args: Any, **kwargs: Any) -> None:
        model, before = self.refuse(*args, **kwargs)
        self.assert_same_state(model.get_weights(), before)

    def test_batch_size(self) -> None:
        self.refuse_untouched("batch_size=16.* 10", batch_size=10)

    def test_seed(self) -> None:
        self.refuse_untouched("seed=7.* 8", seed=8)

    def test_data_of_another_size(self) -> None:
        self.refuse_untouched("num_data=50.* 49", x=X[1:], y=Y[1:])

    def test_model(self) -> None:
        self.refuse_untouched(r"Dense\[2\].units=8, not 9", self.new(units=9))
        arguments = {"changed": "model", "error": tfbdl.CheckpointError}
        self.refuse_untouched("another model", self.new(units=9), **arguments)

    def test_optimizer(self) -> None:
        self.refuse_untouched('optimizer.class="Adam", not "SGD"', self.new(optimizer="sgd"))

    def test_changed_is_checked(self) -> None:
        self.refuse_untouched("^changed='adam' is unknown; .*loss, model, opt", changed=["adam"])

    def test_columns(self) -> None:
        self.refuse_untouched(r"columns=\[.*'loss'.*\], not \['acc'\]", columns=["acc"])

    def test_damaged_checkpoint(self) -> None:
        path = self.run / "checkpoint.npz"
        whole = path.read_bytes()
        generator = random.Random(0)
        damaged = [whole[:end] for end in (0, 1, len(whole) // 2, len(whole) - 1)]
        damaged += [whole[: generator.randrange(len(whole))] for _ in range(5)]
        damaged += [b"garbage", generator.randbytes(len(whole))]
        for data in damaged:
            with self.subTest(size=len(data)):
                path.write_bytes(data)
                self.files["checkpoint.npz"] = data
                self.refuse_untouched("checkpoint.npz", error=tfbdl.CheckpointError)

    def test_log_lost(self) -> None:
        (self.run / "train.log").unlink()
        del self.files["train.log"]
        self.refuse("train.log")

    def test_log_of_fewer_epochs(self) -> None:
        text = self.files["train.log"]
        cut = text[: text.index(b"\nEpoch 2")]
        (self.run / "train.log").write_bytes(cut)
        self.files["train.log"] = cut
        self.refuse("train.log")

    def test_damaged_log(self) -> None:
        for text in (b"mine\n", self.files["train.log"].replace(b"acc", b"a cc")):
            with self.subTest(text[:10]):
                (self.run / "train.log").write_bytes(text)
                self.files["train.log"] = text
                self.refuse("train.log")


def interrupted(folder: Any, kind: Any) -> None:
    """A process that gets SIGINT while it trains; leaves a word on how `train` ended."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` may have it ignored
    keras.utils.set_random_seed(1)
    pid = os.getpid()

    def after(epoch: int, logs: Any) -> None:
        if epoch == 2 and kind == "between":
            os.kill(pid, signal.SIGINT)
        elif epoch == 2:
            threading.Thread(target=press, daemon=True).start()

    def press() -> None:
        """Once, and once more for the case that Python met the first in a finalizer."""
        for delay in (0.01, 2.0):
            time.sleep(delay)
            os.kill(pid, signal.SIGINT)

    callback = keras.callbacks.LambdaCallback(on_epoch_end=after)
    model = dropout()
    repeats = {"long epoch": 400}.get(kind, 1)
    try:
        train(
            model,
            folder,
            1000,
            callbacks=[callback],
            x=np.repeat(X, repeats, axis=0),
            y=np.repeat(Y, repeats),
        )
    except KeyboardInterrupt:
        Path(folder).with_suffix(".word").write_text("interrupted")


@pytest.mark.xla
class InterruptTest(ResumeCase):
    """Ctrl-C ends with a log of whole epochs and a checkpoint that goes on from there.

    Processes compile as for a user, and so does this one, whose bits are held against theirs.
    """

    def check(self, kind: Any) -> Any:
        child = CONTEXT.Process(target=interrupted, args=(str(self.run), kind))
        child.start()
        child.join(60)
        self.assertEqual(child.exitcode, 0)
        self.assertEqual((self.folder / "run.word").read_text(), "interrupted")
        self.assertEqual(sorted(os.listdir(self.run)), ["checkpoint.npz", "train.log"])
        done = len(tfbdl.read_log(self.run / "train.log").epochs)
        self.assertGreaterEqual(done, 2)
        self.assertLess(done, 1000)
        self.assert_whole_epochs(self.run, done)
        return done

    def test_between_steps(self) -> None:
        done = self.check("between")
        expected, log = self.unbroken(dropout, done + 3)
        model = self.new(dropout, seed=2)
        train(model, self.run, done + 3)
        self.assertEqual(without_seconds(self.run), log)
        self.assert_same_state(state(model), expected)

    def test_at_some_time(self) -> None:
        """Anywhere in the loop: in the graph, in the callbacks, while files are written."""
        done = self.check("any")
        expected, log = self.unbroken(dropout, done + 1)
        model = self.new(dropout, seed=2)
        train(model, self.run, done + 1)
        self.assertEqual(without_seconds(self.run), log)
        self.assert_same_state(state(model), expected)

    def test_in_the_middle_of_a_long_epoch(self) -> None:
        """The loop listens every 100 steps, not only at the end of an epoch of 1,250."""
        self.check("long epoch")


class NotFiniteTest(ResumeCase):
    def linear(self) -> Any:
        """Weights near 2, so that an example of 3e38 is infinite in its logits."""
        keras.utils.set_random_seed(1)
        layer = keras.layers.Dense(5, kernel_initializer=keras.initializers.RandomUniform(1, 3))
        return compiled([layer], keras.optimizers.SGD(0.001))

    def regression(self) -> Any:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.01), "mse")
        return model

    def orders(self, size: Any, seed: int, epochs: int) -> Any:
        return [
            tf.random.experimental.stateless_shuffle(tf.range(size), seed=(seed, e)).numpy()
            for e in range(1, epochs + 1)
        ]

    def poisoned(self, x: Any, batch_size: Any, epochs: int = 5) -> Any:
        """x with an example that overflows, the first epoch (> 1) and step that meet it."""
        steps = len(x) // batch_size
        orders = self.orders(len(x), 7, epochs)
        i = orders[0][-1]  # left out in epoch 1
        places = [int(np.flatnonzero(order == i)[0]) for order in orders]
        epoch = next(e for e in range(1, epochs) if places[e] < steps * batch_size)
        x = x.copy()
        x[i] = 3e38
        return x, epoch + 1, places[epoch] // batch_size + 1

    def check(self, x: Any, y: Any, batch_size: Any, epoch: int, step: Any, **kwargs: Any) -> None:
        model = self.linear()
        with self.assertRaisesRegex(
            tfbdl.TrainingError, rf"not finite at epoch {epoch}, step {step}; "
        ) as caught:
            train(model, self.run, x=x, y=y, batch_size=batch_size, **kwargs)
        message = str(caught.exception)
        self.assertNotIn("\n", message)
        self.assertIn(str(self.run / "checkpoint.npz"), message)
        self.assertIn(f"after epoch {epoch - 1}", message)
        self.assert_whole_epochs(self.run, epoch - 1)
        good = self.linear()
        history = train(good, self.run, epoch - 1, x=x, y=y, batch_size=batch_size)
        self.assertEqual(history, {})
        expected = self.linear()
        train(expected, None, epoch - 1, x=x, y=y, batch_size=batch_size, **kwargs)
        self.assert_same_state(state(good), state(expected))
        self.assertTrue(all(np.isfinite(v).all() for v in state(good)))

    def test_poisoned_example(self) -> None:
        x, epoch, step = self.poisoned(X, BATCH)
        self.check(x, Y, BATCH, epoch, step)

    def test_poisoned_example_compiled(self) -> None:
        x, epoch, step = self.poisoned(X, BATCH)
        self.check(x, Y, BATCH, epoch, step, jit_compile=True)

    def test_steps_are_counted_over_several_calls(self) -> None:
        """125 steps an epoch, in two calls of the graph; the bad one may be in the second."""
        x, y = np.repeat(X, 10, axis=0)[:499], np.repeat(Y, 10)[:499]
        order = self.orders(499, 7, 1)[0]
        x[order[120 * 4 + 1]] = 3e38
        model = self.linear()
        with self.assertRaisesRegex(tfbdl.TrainingError, "epoch 1, step 121; give a savedir"):
            train(model, None, x=x, y=y, batch_size=4)

    def test_learning_rate(self) -> None:
        jump = keras.callbacks.LearningRateScheduler(lambda e, rate: 1e30 if e == 2 else 0.01)
        with self.assertRaisesRegex(tfbdl.TrainingError, "epoch 3, step 2;"):
            train(self.regression(), self.run, y=X[:, :1], callbacks=[jump])
        self.assert_whole_epochs(self.run, 2)
        good, expected = self.regression(), self.regression()
        train(good, self.run, 2, y=X[:, :1])
        train(expected, None, 2, y=X[:, :1], callbacks=[jump])
        self.assert_same_state(state(good), state(expected))

    def test_bad_weights_after_the_last_step(self) -> None:
        """The last step's loss is finite and its gradient is not: that state is not good."""

        @tf.custom_gradient
        def bad_after_three(x: Any) -> Any:
            def gradient(upstream: Any) -> Any:
                return tf.where(counter >= 5.0, np.nan, 1.0) * upstream

            return tf.identity(x), gradient

        counter = tf.Variable(-1.0)

        def loss(y: Any, output: Any) -> Any:
            counter.assign_add(1.0)
            return tf.reduce_mean(tf.square(bad_after_three(output)))

        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.01), loss)
        counter.assign(-1.0)
        with self.assertRaises(tfbdl.TrainingError):
            train(model, self.run, 4, y=X[:, :1])
        with np.load(self.run / "checkpoint.npz") as file:
            weights = [file[f"v{i}"] for i in range(2)]
        self.assertTrue(
            all(np.isfinite(w).all() for w in weights), f"the checkpoint holds {weights}"
        )

    def test_without_a_folder(self) -> None:
        x = X.copy()
        x[:] = 3e38
        with self.assertRaisesRegex(
            tfbdl.TrainingError, "epoch 1, step 1; give a savedir to keep checkpoints"
        ):
            train(self.linear(), None, x=x)

    def test_in_the_first_epoch(self) -> None:
        """Nothing good came before: the log is empty and the run can be started again."""
        x = X.copy()
        x[:] = 3e38
        with self.assertRaisesRegex(tfbdl.TrainingError, "epoch 1, step 1; .*after epoch 0"):
            train(self.linear(), self.run, x=x)
        self.assertEqual((self.run / "train.log").read_text(), "")
        history = train(self.linear(), self.run)
        self.assertEqual(len(history["loss"]), EPOCHS)
        self.assert_whole_epochs(self.run, EPOCHS)


if __name__ == "__main__":
    tf.test.main()
