"""The problem: ResNet-20 with filter response normalisation on CIFAR-10, and its prior.

As Izmailov et al. (2021) have it: pixels / 255, minus (.49, .48, .44), over .2, no augmentation,
40,960 training images, swish, biases, and the prior N(0, 1/5) on all weights. (Their code says
`weight_decay = 5`, the precision; the competition's starter kit and the lecture write N(0, 5). The
HMC run that this is held against is the code's.) It takes the first 40,960 images as
`tensorflow_datasets` gives them, which has them in the order of a hash of their numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from tfbdl.data import DataError, cifar10, corrupt
from tfbdl.data.cifar10 import PIXELS
from tfbdl.data.corruption import CORRUPTIONS
from tfbdl.layers import ConcreteDropout, FilterResponseNormalization
from tfbdl.likelihoods import Categorical

NUM_DATA = 40_960
FIRST_CLASSES = (6, 9, 9, 4, 1, 1, 2, 7, 8, 3)
"""The first of the training images have these in their original order."""
PRIOR_PRECISION = 5.0
PRIOR_SCALE = PRIOR_PRECISION**-0.5
KERNEL_PRECISION = 60.0
"""The precision of the prior of kernels, which SGD turns the faster the shorter they are."""
BATCH_SIZE = 80
STEPS = NUM_DATA // BATCH_SIZE
"""Steps in an epoch."""
SHIFTED = 1_000
"""Test images that are corrupted."""
MEAN, STDDEV = np.array([0.49, 0.48, 0.44], "float32"), np.float32(0.2)

Dropped = Callable[[layers.Layer], Callable[[Any], Any]]
"""A function from a convolution to one that drops some of what goes in."""


def training_data() -> tuple[np.ndarray, np.ndarray]:
    """(x, y) of the images on which HMC was run, x normalised.

    Raises:
        DataError: if the images do not stand in their original order.
    """
    images = cifar10()
    if tuple(images.y_train[: len(FIRST_CLASSES)]) != FIRST_CLASSES:
        raise DataError(
            f"the images are not in their original order, in which HMC's {NUM_DATA} are known; "
            f"put cifar10/{PIXELS} into TFBDL_DATA (python -m tutorials.cifar10.pixels writes it)"
        )
    rows = in_order_of_hashes(len(images.y_train))[:NUM_DATA]
    return normalised(unit(images.x_train[rows])), images.y_train[rows]


def in_order_of_hashes(size: int) -> list[int]:
    """Numbers of training images in the order in which `tensorflow_datasets` gives them."""
    return sorted(range(size), key=lambda n: hashlib.md5(f"train{n}".encode()).digest())


def test_inputs() -> np.ndarray:
    """The test images, normalised."""
    return normalised(unit(test_images()))


def test_images() -> np.ndarray:
    """The test images as they are, uint8."""
    return cifar10().x_test


def labels() -> np.ndarray:
    """The classes of the test images."""
    return cifar10().y_test


def shifted() -> Iterator[tuple[str, int, np.ndarray]]:
    """The first test images under each corruption: its kind and strength, and what is seen."""
    images = unit(test_images()[:SHIFTED])
    for kind in CORRUPTIONS:
        for strength in range(1, 6):
            yield kind, strength, normalised(corrupt(images, kind, strength))


def unit(images: np.ndarray) -> np.ndarray:
    """Images of bytes in [0, 1], float32."""
    return images / np.float32(255)


def normalised(images: np.ndarray) -> np.ndarray:
    """What the network sees of images in [0, 1]."""
    return (images - MEAN) / STDDEV


@keras.saving.register_keras_serializable(package="tutorials.cifar10")
def swish(x: tf.Tensor) -> tf.Tensor:
    """Swish, x sigmoid(x), in float32: one pass over memory, and one back."""
    return _swish(x)


@partial(tf.function, jit_compile=True, autograph=False)
def _swish(x: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.nn.silu(tf.cast(x, tf.float32)), x.dtype)


def network(
    precision: float | None = None, dropped: Dropped = lambda convolution: convolution
) -> keras.Model:
    """ResNet-20 of widths 16, 32, 64 with three blocks each: 274,042 weights, logits.

    Args:
        precision: the precision of the prior N(0, 1 / precision), whose -log p(w) / N is then added
            to the loss; None adds nothing.
        dropped: takes the place of the second convolution of each block.
    """

    def convolution(
        x: keras.KerasTensor,
        filters: int,
        size: int,
        *,
        strides: int = 1,
        activation: str | None = None,
        around: Dropped = lambda convolution: convolution,
    ) -> keras.KerasTensor:
        layer = layers.Conv2D(
            filters, size, strides, padding="same", kernel_initializer="he_normal"
        )
        return FilterResponseNormalization(activation=activation)(around(layer)(x))

    def block(x: keras.KerasTensor, filters: int, strides: int) -> keras.KerasTensor:
        y = convolution(x, filters, 3, strides=strides, activation="swish")
        y = convolution(y, filters, 3, around=dropped)
        if strides > 1:
            x = convolution(x, filters, 1, strides=strides)
        return layers.Activation(swish)(layers.Add()([x, y]))

    inputs = keras.Input((32, 32, 3))
    x = convolution(inputs, 16, 3, activation="swish")
    for stage, filters in enumerate((16, 32, 64)):
        for number in range(3):
            x = block(x, filters, 2 if stage and not number else 1)
    features = layers.Flatten()(layers.AveragePooling2D(8, dtype="float32")(x))
    model = keras.Model(inputs, layers.Dense(10, dtype="float32")(features))
    if precision is not None:
        for layer in model.layers:
            if not isinstance(layer, ConcreteDropout):  # whose own term has the prior
                set_prior(layer, precision)
    return model


def set_prior_of_kernels(model: keras.Model, precision: float) -> keras.Model:
    """Gives all convolutions the prior N(0, 1 / precision); no other changes what they say.

    The normalisation behind each takes out its scale, so that under any such prior the function has
    the same distribution.
    """
    for layer in convolutions(model):
        set_prior(layer, precision)
    return model


def convolutions(model: keras.Model) -> list[layers.Conv2D]:
    """The layers whose scale changes no function."""
    return [layer for layer in model.layers if isinstance(layer, layers.Conv2D)]


def set_prior(layer: layers.Layer, precision: float) -> None:
    """Has weights w add -log N(w; 0, 1 / precision) / N to the loss, but for a constant."""
    for weight in layer.trainable_variables:
        weight.regularizer = keras.regularizers.L2(0.5 * precision / NUM_DATA)


def compiled(model: keras.Model, optimizer: keras.optimizers.Optimizer) -> keras.Model:
    """The model with the likelihood, and what the log shows."""
    model.compile(
        optimizer,
        Categorical(),
        metrics=[
            keras.metrics.SparseCategoricalCrossentropy(from_logits=True, name="cent"),
            keras.metrics.SparseCategoricalAccuracy(name="acc"),
        ],
    )
    return model
