"""The problem: ResNet-20 with filter response normalisation on CIFAR-10, and its prior.

As Izmailov et al. (2021) have it: pixels / 255, minus (.49, .48, .44), over .2, no augmentation,
40,960 training images, swish, biases, and the prior N(0, 1/5) on all weights. (Their code says
`weight_decay = 5`, the precision; the competition's starter kit and the lecture write N(0, 5). The
HMC run that this is held against is the code's.) Which 40,960 images they took is not known; here
they are the first.
"""

from __future__ import annotations

import keras
import numpy as np
from keras import layers

from tfbdl.data import cifar10
from tfbdl.layers import FilterResponseNormalization

NUM_DATA = 40_960
PRIOR_PRECISION = 5.0
BATCH_SIZE = 80
STEPS = NUM_DATA // BATCH_SIZE
"""In an epoch."""
MEAN, STDDEV = np.array([0.49, 0.48, 0.44], "float32"), np.float32(0.2)


def data() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """(x, y) to train on and to test with, x normalised."""
    images = cifar10()
    train = normalised(images.x_train[:NUM_DATA]), images.y_train[:NUM_DATA]
    return train, (normalised(images.x_test), images.y_test)


def normalised(images: np.ndarray) -> np.ndarray:
    return (images.astype("float32") / 255.0 - MEAN) / STDDEV


def network(precision: float | None = None) -> keras.Model:
    """ResNet-20 of widths 16, 32, 64 with three blocks each: 274,042 weights, logits.

    Args:
        precision: of the prior N(0, 1 / precision), whose -log p(w) / N is then added to the loss;
            None adds nothing.
    """
    penalty = None if precision is None else keras.regularizers.L2(0.5 * precision / NUM_DATA)

    def convolution(
        x: keras.KerasTensor, filters: int, size: int, strides: int, activation: str | None = None
    ) -> keras.KerasTensor:
        x = layers.Conv2D(filters, size, strides, padding="same", kernel_initializer="he_normal")(x)
        return FilterResponseNormalization(activation=activation)(x)

    def block(x: keras.KerasTensor, filters: int, strides: int) -> keras.KerasTensor:
        y = convolution(x, filters, 3, strides, "swish")
        y = convolution(y, filters, 3, 1)
        if strides > 1:
            x = convolution(x, filters, 1, strides)
        return layers.Activation("swish")(layers.Add()([x, y]))

    inputs = keras.Input((32, 32, 3))
    x = convolution(inputs, 16, 3, 1, "swish")
    for stage, filters in enumerate((16, 32, 64)):
        for number in range(3):
            x = block(x, filters, 2 if stage and not number else 1)
    model = keras.Model(inputs, layers.Dense(10)(layers.Flatten()(layers.AveragePooling2D(8)(x))))
    for weight in model.trainable_variables:
        weight.regularizer = penalty
    return model
