"""The network of all methods: LeNet-5 as the Uncertainty Baselines have it, 545,546 weights.

https://github.com/google/uncertainty-baselines, baselines/mnist: three convolutions with padding,
a dense layer of 84 units and one of logits; Adam at 1e-3 for 25 epochs of 50,000 images, batch 256.
Here the rate falls along a cosine, for all methods, and batches of 250 leave out no image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers

Around = Callable[[layers.Layer], Callable[[Any], Any]]
"""A function from a layer with weights to what takes its place."""


def same(layer: layers.Layer) -> layers.Layer:
    """The layer itself."""
    return layer


def lenet(around: Around = same, head: layers.Layer | None = None) -> keras.Model:
    """The network, not compiled: (B, 28, 28, 1) to logits (B, 10).

    Args:
        around: takes the place of all layers with weights but the first.
        head: takes the place of the last layer.
    """
    x = inputs = keras.Input((28, 28, 1))
    for number, filters in enumerate((6, 16, 120)):
        layer = layers.Conv2D(filters, 5, padding="same", activation="relu")
        x = (around if number else same)(layer)(x)
        if number < 2:
            x = layers.MaxPooling2D()(x)
    x = around(layers.Dense(84, "relu"))(layers.Flatten()(x))
    return keras.Model(inputs, around(layers.Dense(10) if head is None else head)(x))


def compiled(
    model: keras.Model, optimizer: keras.optimizers.Optimizer, loss: Any = None
) -> keras.Model:
    """Compiles with the cross-entropy of logits, if no other loss is given."""
    loss = loss or keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss)
    return model
