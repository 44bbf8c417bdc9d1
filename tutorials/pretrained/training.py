"""How heads and tails are trained: with Adam, whose rate falls to 0, under a normal prior."""

from __future__ import annotations

import argparse
from typing import Any

import keras

from tfbdl.likelihoods import Categorical
from tutorials.pretrained.problem import KNOWN

PRECISION = 1.0
"""The precision of the prior of each weight of a head; features are of size 1."""


def classes(num_data: int) -> keras.layers.Dense:
    """The layer of logits, with its prior in the loss."""
    decay = keras.regularizers.L2(0.5 * PRECISION / num_data)
    return keras.layers.Dense(len(KNOWN), kernel_regularizer=decay, name="classes")


def compiled(
    args: argparse.Namespace, network: keras.Model, *, num_data: int, epochs: int, rate: float
) -> keras.Model:
    """The network, ready to be trained on N examples."""
    steps = epochs * (num_data // args.batch_size)
    falling = keras.optimizers.schedules.CosineDecay(rate, steps)
    accuracy = ["sparse_categorical_accuracy"]
    network.compile(keras.optimizers.Adam(falling), Categorical(), metrics=accuracy)
    return network


def settings(args: argparse.Namespace, epochs: int) -> dict[str, Any]:
    """How all methods train."""
    return {"epochs": epochs, "batch_size": args.batch_size, "verbose": 0}
