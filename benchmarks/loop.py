"""What the training loop costs beside its bare arithmetic, and Keras' fit beside the loop.

    python benchmarks/loop.py                 # all of
    python benchmarks/loop.py --only vae loop fit

Prints medians over rounds that take turns, so that a machine whose speed drifts does not decide.

1. A VAE epoch (1,000 images, 10 steps of 100, 784-500-500-20-500-500-784) in `tfbdl.train`'s
   compiled steps, against the same matrix products (forward, backward) and Adam updates alone.
2. An epoch of a 784-500-500-10 network of `BayesDense` layers in `model.fit`, with Keras'
   defaults and with the settings that docs/guides/train.md recommends, against the same network in
   `tfbdl.train`.
3. What a user of `fit` feels: an epoch of 784-500-500-10, LeNet-5, ResNet-20 and a small
   transformer with random weights, by `tfbdl.to_bayesian`, against the same networks without; both
   in `model.fit` with Keras' defaults.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TFBDL_QUIET", "1")

import tfbdl  # isort: skip  (before anything that imports TensorFlow)


import keras
import numpy as np
import tensorflow as tf
from compiled_epochs import compiled_epoch
from plain_networks import NETWORKS

from tfbdl.layers import BayesDense
from tfbdl.models import VAE

BATCH, STEPS, ROUNDS = 100, 10, 40
ROUNDS_OF_FIT = {"784-500-500-10": 40, "LeNet-5": 40, "ResNet-20": 5, "transformer": 20}
VAE_SHAPES = [(784, 500), (500, 500), (500, 20), (500, 20), (20, 500), (500, 500), (500, 784)]


def vae_epoch(x: np.ndarray) -> Callable[[], None]:
    """An epoch of the tutorial's VAE."""
    vae = VAE(seed=0)
    vae.compile(keras.optimizers.Adam(1e-3))
    return compiled_epoch(vae, x)


def bare_epoch(x: tf.Tensor) -> Callable[[], None]:
    """The same products and Adam updates, and nothing else."""
    weights = [tf.Variable(tf.random.normal(shape) * 0.05) for shape in VAE_SHAPES]
    first = [tf.Variable(tf.zeros(shape)) for shape in VAE_SHAPES]
    second = [tf.Variable(tf.zeros(shape)) for shape in VAE_SHAPES]

    @tf.function(jit_compile=True)
    def step(batch: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            hidden = batch @ weights[0] @ weights[1]
            z = hidden @ weights[2] + hidden @ weights[3]
            output = z @ weights[4] @ weights[5] @ weights[6]
            loss = tf.reduce_sum(output * batch)
        gradients = tape.gradient(loss, weights)
        for w, m, v, g in zip(weights, first, second, gradients, strict=True):
            m.assign(0.9 * m + 0.1 * g)
            v.assign(0.999 * v + 0.001 * g * g)
            w.assign_sub(1e-3 * m / (tf.sqrt(v) + 1e-7))

    @tf.function
    def epoch(order: tf.Tensor) -> None:
        for i in tf.range(STEPS):
            step(tf.gather(x, tf.slice(order, [i * BATCH], [BATCH])))

    order = tf.random.shuffle(tf.range(len(x)))
    return lambda: epoch(order)


def bayes_dense(**how: Any) -> keras.Model:
    """The tutorial's network, every weight with a distribution."""
    model = keras.Sequential(
        [
            keras.layers.Input((784,)),
            BayesDense(500, "relu", num_data=1000, seed=0),
            BayesDense(500, "relu", num_data=1000, seed=1),
            BayesDense(10, num_data=1000, seed=2),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, **how)
    return model


def loop_epoch(x: np.ndarray, y: np.ndarray) -> Callable[[], None]:
    """One epoch of `BayesDense` in the package's compiled steps."""
    return compiled_epoch(bayes_dense(), x, y)


class EpochTimes(keras.callbacks.Callback):
    """Seconds of each epoch of `fit`."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self.started = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self.seconds.append(time.perf_counter() - self.started)


def fit_epochs(model: keras.Model, *data: Any, **arguments: Any) -> Callable[[], list[float]]:
    """Five epochs of a network in Keras' `fit`; the seconds of the last four."""

    def run() -> list[float]:
        times = EpochTimes()
        model.fit(*data, epochs=5, verbose=0, callbacks=[times], **arguments)
        return times.seconds[1:]

    return run


def recommended(x: np.ndarray, y: np.ndarray) -> Callable[[], list[float]]:
    """`fit` from a data set, several steps at a time, each compiled by XLA."""
    examples = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x))
    data = examples.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    return fit_epochs(bayes_dense(jit_compile=True, steps_per_execution=STEPS), data)


def fit_pair(name: str, n: int = 1000) -> tuple[Callable[[], list[float]], ...]:
    """Plain `fit` of a network with random weights, and of the same one without."""
    made = NETWORKS[name]()
    y = np.random.default_rng(1).integers(0, 10, n)
    models = tfbdl.to_bayesian(made.model, num_data=n), made.model
    for model in models:
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x = made.inputs(n)
    random, plain = (fit_epochs(model, x, y, batch_size=BATCH) for model in models)
    return random, plain


def timed(run: Callable[[], None], repeats: int = 4) -> list[float]:
    """Seconds of each of a few runs."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return seconds


def compare(
    names: tuple[str, str],
    first: Callable[[], list[float]],
    second: Callable[[], list[float]],
    num_rounds: int = ROUNDS,
) -> None:
    """Takes turns, and prints the medians and the ratio of each round."""
    first(), second()
    rounds = [(np.median(first()), np.median(second())) for _ in range(num_rounds)]
    a, b = np.array(rounds).T
    ratios = np.percentile(a / b, [10, 50, 90])
    print(f"{names[0]}: {1e3 * np.median(a):.1f} ms an epoch")
    print(f"{names[1]}: {1e3 * np.median(b):.1f} ms an epoch")
    print(f"ratio: median {ratios[1]:.2f} (10 % to 90 %: {ratios[0]:.2f} to {ratios[2]:.2f})\n")


def main() -> None:
    """The comparisons that are asked for."""
    comparisons = {"vae": of_vae, "loop": of_loop, "fit": of_fit}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=comparisons, default=comparisons)
    for name in parser.parse_args().only:
        comparisons[name]()


def of_vae() -> None:
    """The package's loop beside bare arithmetic."""
    x = np.random.default_rng(0).random((1000, 784)).astype("float32")
    vae, bare = vae_epoch(x), bare_epoch(tf.constant(x))
    compare(
        ("VAE in tfbdl.train", "bare products and Adam"), lambda: timed(vae), lambda: timed(bare)
    )


def of_loop() -> None:
    """Keras' `fit` beside the package's loop."""
    rng = np.random.default_rng(0)
    x, y = rng.random((1000, 784)).astype("float32"), rng.integers(0, 10, 1000)
    loop = loop_epoch(x, y)
    for name, fit in {
        "BayesDense in model.fit, defaults": fit_epochs(bayes_dense(), x, y, batch_size=BATCH),
        "BayesDense in model.fit, as recommended": recommended(x, y),
    }.items():
        compare((name, "BayesDense in tfbdl.train"), fit, lambda: timed(loop))


def of_fit() -> None:
    """Random weights beside none, both in `fit`."""
    for name, num_rounds in ROUNDS_OF_FIT.items():
        compare((f"{name}, random weights", f"{name}, plain"), *fit_pair(name), num_rounds)


if __name__ == "__main__":
    main()
