"""What Monte-Carlo prediction costs beside a Python loop; how it grows is in `growth.py`.

    python benchmarks/predict.py

784-500-500-10 with dropout after each hidden layer: `tfbdl.predict` with S = 1,000 on 1,000 images,
against `[model(x, training=True) for _ in range(1000)]` compiled with `tf.function`, in turns.
"""

from __future__ import annotations

import os
import time

os.environ.setdefault("TFBDL_QUIET", "1")

import tfbdl  # isort: skip  (before anything that imports TensorFlow)


import keras
import numpy as np
import tensorflow as tf

ROUNDS = 3


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

    one(x_device)
    tfbdl.predict(model, x, 2, verbose=0)
    seconds: dict[str, list[float]] = {"loop": [], "predict": []}
    for _ in range(ROUNDS):
        for name, run in (("loop", loop), ("predict", predict)):
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    medians = {name: np.median(values) for name, values in seconds.items()}
    ratios = np.array(seconds["loop"]) / np.array(seconds["predict"])
    print("S = 1,000 functions on 1,000 images")
    print(f"loop of compiled calls: {medians['loop']:.1f} s")
    print(f"tfbdl.predict: {medians['predict']:.1f} s")
    print(f"ratio: median {np.median(ratios):.1f} ({ratios.min():.1f} to {ratios.max():.1f})\n")


if __name__ == "__main__":
    beside_a_loop()
