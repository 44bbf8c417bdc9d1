"""TensorFlow Probability's layers, on tf_keras."""

from __future__ import annotations

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf
import tensorflow_probability as tfp
import work

Round = Callable[[], dict[str, float]]
keras = tf.keras


def divergence(n: int) -> Callable[..., tf.Tensor]:
    """KL / N in closed form."""
    return lambda q, p, _: tfp.distributions.kl_divergence(q, p) / n


def fit(stack: list[Any], shape: tuple[int, ...], batch: int, *, jit_compile: bool = True) -> Round:
    """An epoch of `fit`."""
    n = work.STEPS * batch
    x, y = work.images(n)
    model = keras.Sequential([keras.Input(shape), *stack])
    model.compile(
        keras.optimizers.Adam(work.LEARNING_RATE),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=jit_compile,
    )
    x = x.reshape(n, *shape)

    def run() -> dict[str, float]:
        model.fit(x, y, batch_size=batch, epochs=1, verbose=0)
        return {"units": work.STEPS}

    return run


def dense(layer: Any, sizes: tuple[int, ...] = work.NETWORK, batch: int = work.BATCH) -> Round:
    """Steps of ReLU layers."""
    made = partial(layer, kernel_divergence_fn=divergence(work.STEPS * batch))
    stack = [*(made(n, activation="relu") for n in sizes[1:-1]), made(sizes[-1])]
    return fit(stack, sizes[:1], batch)


bbb_one = partial(dense, tfp.layers.DenseReparameterization)
bbb_local = partial(dense, tfp.layers.DenseLocalReparameterization)
bbb_flipout = partial(dense, tfp.layers.DenseFlipout)
bbb_wide = partial(dense, tfp.layers.DenseReparameterization, work.WIDE, work.WIDE_BATCH)


def lenet() -> Round:
    """LeNet-5, without XLA, whose convolutions are slow on CPUs."""
    kl = {"kernel_divergence_fn": divergence(work.STEPS * work.BATCH)}
    conv, full = tfp.layers.Convolution2DReparameterization, tfp.layers.DenseReparameterization
    stack = [
        *(conv(6, 5, padding="same", activation="relu", **kl), keras.layers.MaxPooling2D()),
        *(conv(16, 5, activation="relu", **kl), keras.layers.MaxPooling2D()),
        keras.layers.Flatten(),
        *(full(120, activation="relu", **kl), full(84, activation="relu", **kl), full(10, **kl)),
    ]
    return fit(stack, (28, 28, 1), work.BATCH, jit_compile=False)
