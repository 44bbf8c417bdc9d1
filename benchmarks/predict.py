"""What Monte-Carlo prediction costs beside a Python loop; how it grows is in `growth.py`.

    python benchmarks/predict.py

784-500-500-10 with dropout after each hidden layer: `tfbdl.predict` with S = 1,000 on 1,000 images,
against `[model(x, training=True) for _ in range(1000)]` compiled with `tf.function`, in turns.
Then what a random last layer costs behind a network that all functions share: S = 100 functions
against one `model.predict`, of photographs by MobileNetV3Small, and of rows of a table with words.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TFBDL_QUIET", "1")

import tfbdl  # isort: skip  (before anything that imports TensorFlow)


import keras
import numpy as np
import tensorflow as tf

ROUNDS = 5


def network() -> keras.Model:
    """The tutorial's network."""
    stack = [
        keras.layers.Dense(500, "relu"),
        tfbdl.layers.MCDropout(0.5),
        keras.layers.Dense(500, "relu"),
        tfbdl.layers.MCDropout(0.5),
        keras.layers.Dense(10),
    ]
    model = keras.Sequential([keras.Input((784,)), *stack])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def images(n: int) -> np.ndarray:
    """Noise, which costs what digits cost."""
    return np.random.default_rng(0).random((n, 784), dtype=np.float32)


def beside_a_loop() -> None:
    """Both ways to the mean of the class probabilities."""
    model, x = network(), images(1000)
    x_device = tf.constant(x)

    @tf.function
    def one(x: tf.Tensor) -> tf.Tensor:
        return tf.nn.softmax(model(x, training=True))

    def loop() -> None:
        np.mean([one(x_device) for _ in range(1000)], axis=0)

    def predict() -> None:
        _ = tfbdl.predict(model, x, 1000, seed=0, verbose=0).mean

    seconds = in_turns({"loop": loop, "predict": predict})
    medians = {name: np.median(values) for name, values in seconds.items()}
    ratios = np.array(seconds["loop"]) / np.array(seconds["predict"])
    print("S = 1,000 functions on 1,000 images")
    print(f"loop of compiled calls: {medians['loop']:.1f} s")
    print(f"tfbdl.predict: {medians['predict']:.1f} s")
    print(f"ratio: median {np.median(ratios):.1f} ({ratios.min():.1f} to {ratios.max():.1f})\n")


def photographs() -> tuple[keras.Model, np.ndarray]:
    """MobileNetV3Small behind which a layer is random, and 500 photographs of 96 x 96."""
    body = keras.applications.MobileNetV3Small(
        (96, 96, 3), weights=None, include_top=False, pooling="avg"
    )
    head = [tfbdl.layers.MCDropout(0.5), keras.layers.Dense(10, "softmax")]
    x = np.random.default_rng(0).random((500, 96, 96, 3), dtype=np.float32)
    return keras.Sequential([body, *head]), x


def rows() -> tuple[keras.Model, list[tf.Tensor]]:
    """Five layers of 500 behind a look-up, with a random last one, and 1,000 rows."""
    words, numbers = keras.Input((1,), dtype="string"), keras.Input((20,))
    lookup = keras.layers.StringLookup(vocabulary=["red", "green", "blue"], output_mode="one_hot")
    h = keras.layers.Concatenate()([lookup(words), numbers])
    for _ in range(5):
        h = keras.layers.Dense(500, "relu")(h)
    model = keras.Model([words, numbers], tfbdl.layers.BayesDense(1, num_data=1000)(h))
    return model, [tf.constant([["red"], ["blue"]] * 500), tf.random.normal([1000, 20])]


def behind_a_shared_part() -> None:
    """100 functions beside a single one."""
    for title, (model, x) in (("photographs", photographs()), ("rows", rows())):

        def one(model: keras.Model = model, x: Any = x) -> None:
            model.predict(x, batch_size=100, verbose=0)

        def many(model: keras.Model = model, x: Any = x) -> None:
            tfbdl.predict(model, x, 100, batch_size=100, verbose=0)

        seconds = in_turns({"one": one, "many": many})
        ratios = np.array(seconds["many"]) / np.array(seconds["one"])
        print(f"{title}: 100 functions that differ in the last layer, beside one by Keras")
        print(f"ratio: median {np.median(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f})\n")


def in_turns(works: dict[str, Callable[[], None]]) -> dict[str, list[float]]:
    """The seconds of each, in `ROUNDS` rounds behind a first one that compiles."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for number in range(ROUNDS + 1):
        for name, run in works.items():
            started = time.perf_counter()
            run()
            if number:
                seconds[name].append(time.perf_counter() - started)
    return seconds


if __name__ == "__main__":
    beside_a_loop()
    behind_a_shared_part()
