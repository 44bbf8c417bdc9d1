"""Networks without random weights, as people write them in Keras, and examples of their data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import layers as L

CLASSES, WORDS, TOKENS = 10, 1000, 32


class Plain(NamedTuple):
    """A network that is not compiled, and inputs of its first layer for n examples."""

    model: keras.Model
    inputs: Callable[[int], np.ndarray]


def _noise(*shape: int) -> Callable[[int], np.ndarray]:
    rng = np.random.default_rng(0)
    return lambda n: rng.random((n, *shape), dtype="float32")


def mlp() -> Plain:
    """784-500-500-10."""
    stack = [keras.Input((784,)), L.Dense(500, "relu"), L.Dense(500, "relu"), L.Dense(CLASSES)]
    return Plain(keras.Sequential(stack, name="mlp"), _noise(784))


def lenet5() -> Plain:
    """LeCun et al. (1998), with max pooling and rectified linear units: 61,706 weights."""
    stack = [keras.Input((28, 28, 1)), L.Conv2D(6, 5, padding="same", activation="relu")]
    stack += [L.MaxPooling2D(), L.Conv2D(16, 5, activation="relu"), L.MaxPooling2D()]
    stack += [L.Flatten(), L.Dense(120, "relu"), L.Dense(84, "relu"), L.Dense(CLASSES)]
    return Plain(keras.Sequential(stack, name="lenet5"), _noise(28, 28, 1))


def resnet20() -> Plain:
    """He et al. (2016) for CIFAR-10, with shortcuts that have no weights: 269,722 to train."""

    def convolution(h: Any, filters: int, strides: int = 1) -> Any:
        h = L.Conv2D(filters, 3, strides, padding="same", use_bias=False)(h)
        return L.BatchNormalization()(h)

    inputs = keras.Input((32, 32, 3))
    h = L.ReLU()(convolution(inputs, 16))
    for filters in (16, 32, 64):
        for block in range(3):
            shortcut, strides = h, 1
            if filters > 16 and block == 0:
                strides = 2
                half = filters // 4
                shortcut = keras.ops.pad(h[:, ::2, ::2], [[0, 0], [0, 0], [0, 0], [half, half]])
            h = convolution(L.ReLU()(convolution(h, filters, strides)), filters)
            h = L.ReLU()(L.Add()([h, shortcut]))
    outputs = L.Dense(CLASSES)(L.GlobalAveragePooling2D()(h))
    return Plain(keras.Model(inputs, outputs, name="resnet20"), _noise(32, 32, 3))


def transformer() -> Plain:
    """Two encoder blocks of width 64 over 32 tokens."""
    inputs = keras.Input((TOKENS,), dtype="int32")
    h = L.Embedding(WORDS, 64)(inputs)
    for _ in range(2):
        g = L.LayerNormalization()(h)
        h = L.Add()([h, L.MultiHeadAttention(num_heads=4, key_dim=16)(query=g, value=g)])
        g = L.Dense(256, "gelu")(L.LayerNormalization()(h))
        h = L.Add()([h, L.Dense(64)(g)])
    outputs = L.Dense(CLASSES)(L.GlobalAveragePooling1D()(L.LayerNormalization()(h)))
    rng = np.random.default_rng(0)
    model = keras.Model(inputs, outputs, name="transformer")
    return Plain(model, lambda n: rng.integers(0, WORDS, (n, TOKENS)).astype("int32"))


NETWORKS: dict[str, Callable[[], Plain]] = {
    "784-500-500-10": mlp,
    "LeNet-5": lenet5,
    "ResNet-20": resnet20,
    "transformer": transformer,
}
