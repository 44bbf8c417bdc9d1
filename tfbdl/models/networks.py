"""Networks inside a model of this package: stacks of its own, and those of the user's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras

from tfbdl.arguments import first_line, instance


def own_network(name: str, value: Any) -> keras.layers.Layer:
    """`value`, if it is a Keras layer or model.

    Raises:
        ValueError: if it is none.
    """
    return instance(name, value, keras.layers.Layer, "a Keras layer or model")


def hidden_layers(role: str, widths: Sequence[int], activation: str) -> list[keras.layers.Layer]:
    """Dense layers of these widths, named by their role."""
    return [
        keras.layers.Dense(width, activation, name=f"{role}_{i}") for i, width in enumerate(widths)
    ]


def build_stack(layers: Sequence[keras.layers.Layer], widths: Sequence[int]) -> None:
    """Makes the variables of layers that each take vectors of a width."""
    for layer, width in zip(layers, widths, strict=True):
        layer.build((None, width))


def build_network(
    name: str, network: keras.layers.Layer, shape: tuple[int, ...], size: int
) -> None:
    """Makes the variables of a network for inputs of shape (B, *shape).

    Raises:
        ValueError: if it does not take them, or gives other than `size` numbers for each.
    """
    try:
        output = network(keras.KerasTensor((None, *shape)))
    except Exception as error:  # layers raise what they like
        raise ValueError(
            f"{name}={network.name} does not take shape {shape}: {first_line(error)}"
        ) from error
    given = getattr(output, "shape", ())[1:]
    if not given or None in given or math.prod(given) != size:
        raise ValueError(
            f"{name}={network.name} gives shape {given} for one example of shape {shape}; let it "
            f"give {size} numbers"
        )
