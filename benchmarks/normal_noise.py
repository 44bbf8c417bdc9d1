"""The price of normal noise that follows its law to 6.3 standard deviations.

    python benchmarks/normal_noise.py

A step of Bayes by Backprop (784-500-500-10, batches of 100, one sample of the weights) in
`tfbdl.train`, beside the same with a u of 23 bits, as float32 holds them in [1/2, 1], where the
law ends in an atom at 5.3. Both take turns; ratios are of one turn.
"""

from __future__ import annotations

import os

os.environ.setdefault("TFBDL_QUIET", "1")
import tfbdl  # isort: skip  (before anything that imports TensorFlow)

import argparse
import json
import math
import time
from pathlib import Path
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

from tfbdl import random
from tfbdl.elementary import normal_quantile
from tfbdl.layers import BayesDense

STEPS, BATCH = 200, 100


def of_23_bits(key: tf.Tensor, shape: random.Shape, dtype: str = "float32") -> tf.Tensor:
    """Standard normal noise of as many values as float32 has digits, by the same polynomials."""
    high = tf.bitwise.right_shift(random.bits(key, shape), tf.constant(9, tf.uint32))
    u = (tf.cast(tf.cast(high, tf.int32), tf.float32) + 0.5) * 2.0**-23
    return tf.cast(normal_quantile(u, 1.0 - u), dtype)


KINDS = {"tails to 6.3": random.normal, "tails to 5.3": of_23_bits}


class Training:
    """Epochs of a network whose steps are traced with one kind of noise.

    Args:
        normal: what takes the place of `tfbdl.random.normal`.
    """

    def __init__(self, normal: object) -> None:
        num = STEPS * BATCH
        rng = np.random.default_rng(0)
        self.x = rng.uniform(size=(num, 784)).astype("float32")
        self.y = rng.integers(0, 10, num)
        sizes = ((500, "relu"), (500, "relu"), (10, None))
        layers = [BayesDense(*size, num_data=num, seed=i) for i, size in enumerate(sizes)]
        model = keras.Sequential([keras.Input((784,)), *layers])
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        self.seconds: list[float] = []
        self._normal, self._model = normal, model

    def run(self, epochs: int) -> None:
        """Trains; notes the milliseconds of a step in all epochs but the first."""
        clock = _Clock()
        with mock.patch.object(random, "normal", self._normal):
            tfbdl.train(
                self._model,
                self.x,
                self.y,
                epochs=epochs + 1,
                batch_size=BATCH,
                callbacks=[clock],
                verbose=0,
            )
        self.seconds.append(float(np.median(clock.seconds[1:])))


class _Clock(keras.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        self._begun = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        self.seconds.append(time.perf_counter() - self._begun)


def main() -> None:
    """Times, and writes what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=4, help="of a turn")
    parser.add_argument("--savedir", type=Path, default=Path("runs/normal_noise"))
    args = parser.parse_args()
    trainings = {name: Training(normal) for name, normal in KINDS.items()}
    for _ in range(args.turns):
        for training in trainings.values():
            training.run(args.epochs)
    ms = {name: [1e3 * s / STEPS for s in t.seconds] for name, t in trainings.items()}
    ratios = np.divide(*map(np.array, ms.values()))
    error = ratios.std(ddof=1) / math.sqrt(len(ratios))
    record = {
        "milliseconds a step": {name: round(float(np.median(v)), 3) for name, v in ms.items()},
        "ratio": round(float(np.median(ratios)), 4),
        "standard error": round(float(error), 4),
        "turns": args.turns,
        "versions": {"tfbdl": tfbdl.__version__, "tensorflow": tf.__version__},
    }
    args.savedir.mkdir(parents=True, exist_ok=True)
    (args.savedir / "normal_noise.json").write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
