"""Data and losses that break in the middle of a training."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tfbdl
from soak.files import model
from soak.jobs import N, X, Y

ERRORS = (ValueError, KeyError, StopIteration, MemoryError, ZeroDivisionError, OSError)
BATCH, EPOCHS = 5, 3
STEPS = N // BATCH
SHAPES = (tf.TensorSpec([4]), tf.TensorSpec([], tf.int64))


def raising(times: int, seed: int) -> Counter[str]:
    """Generators, maps and calls that raise at a random example of a random epoch, in `train`.

    Raises:
        AssertionError: unless one line of TrainingError names what was raised, the log and the
            checkpoint hold the epochs before, and the run that goes on ends as one let alone.
    """
    chance, actual = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as path:
        expected = _weights(Path(path) / "whole", _examples(0, 0, None, "generator"))
        for i in range(times):
            error, where = chance.choice(ERRORS), chance.choice(["generator", "map"])
            epoch, example = chance.randint(1, EPOCHS), chance.randrange(1, N)
            folder = Path(path) / str(i)
            if epoch == 1 and example < BATCH:
                continue  # the first batch is looked at before training begins
            try:
                _weights(folder, _examples(epoch, example, error, where))
            except tfbdl.TrainingError as said:
                _check(str(said), error, folder, epoch - 1)
            else:
                # the end of a generator is no error of Python's, but examples are missing
                raise AssertionError(f"{error.__name__} of the {where} is not heard of")
            for a, b in zip(_weights(folder, _examples(0, 0, None, where)), expected, strict=True):
                np.testing.assert_array_equal(a, b)
            actual[f"{error.__name__} in a {where}"] += 1
    return actual


def _check(said: str, error: type[Exception], folder: Path, epochs: int) -> None:
    known = error.__name__ in said or "mine" in said or "fewer examples" in said
    if "\n" in said or not known:
        raise AssertionError(f"{error.__name__} is told as {said!r}")
    log = tfbdl.read_log(folder / "train.log")
    if len(log.epochs) != epochs:
        raise AssertionError(f"{len(log.epochs)} epochs in the log, {epochs} were whole")


def _examples(
    epoch: int, example: int, error: type[Exception] | None, where: str
) -> Callable[[int, tf.distribute.InputContext], tf.data.Dataset]:
    """Gives data sets of which one raises."""

    def fail(number: int, i: int) -> None:
        if error is not None and (number, i) == (epoch, example):
            raise error("mine")

    def of_epoch(number: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
        if where == "generator":

            def rows() -> Iterator[tuple[np.ndarray, np.ndarray]]:
                for i in range(N):
                    fail(number, i)
                    yield X[i], Y[i]

            return tf.data.Dataset.from_generator(rows, output_signature=SHAPES)

        def of_row(i: np.ndarray) -> np.ndarray:
            fail(number, int(i))
            return X[i]

        def look_up(i: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            x = tf.numpy_function(of_row, [i], tf.float32)
            return tf.ensure_shape(x, [4]), tf.gather(tf.constant(Y), i)

        return tf.data.Dataset.range(N).map(look_up)

    return of_epoch


def _weights(folder: Path, examples: Callable[..., tf.data.Dataset]) -> list[np.ndarray]:
    keras.utils.set_random_seed(1)
    network = model()
    tfbdl.train(
        network,
        examples,
        epochs=EPOCHS,
        num_data=N,
        batch_size=BATCH,
        savedir=folder,
        jit_compile=False,
        verbose=0,
    )
    return network.get_weights()


def overflowing(times: int, seed: int) -> Counter[str]:
    """Trainings under mixed_float16 on inputs of any size.

    Raises:
        AssertionError: unless each ends with finite weights, or in one line that leaves a
            checkpoint of finite weights.
    """
    chance, actual = random.Random(seed), Counter[str]()
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        for _ in range(times):
            actual[_overflow(10.0 ** chance.uniform(-8, 38), chance.random() < 0.5)] += 1
    finally:
        keras.config.set_dtype_policy(before)
    return actual


def _overflow(scale: float, scaled: bool) -> str:
    network = model()
    optimizer = keras.optimizers.Adam(0.01)
    network.compile(
        keras.optimizers.LossScaleOptimizer(optimizer) if scaled else optimizer,
        network.loss,
        auto_scale_loss=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        try:
            tfbdl.train(
                network,
                (np.float64(scale) * X).clip(-3e38, 3e38).astype("float32"),
                Y,
                epochs=2,
                batch_size=10,
                savedir=folder,
                jit_compile=False,
                verbose=0,
            )
            kept = {str(i): w for i, w in enumerate(network.get_weights())}
            end = "trained"
        except tfbdl.TrainingError as error:
            if "\n" in str(error):
                raise AssertionError(f"{error!r} has not one line") from error
            with np.load(Path(folder) / "checkpoint.npz") as file:
                kept = dict(file)
            end = "one line"
    broken = [n for n, a in kept.items() if a.dtype.kind == "f" and not np.isfinite(a).all()]
    if broken:
        raise AssertionError(f"at {scale:g} the weights {broken} are not finite after: {end}")
    return end
