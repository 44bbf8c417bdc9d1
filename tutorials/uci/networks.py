"""The networks of the protocol, one hidden layer of ReLUs, and how they are trained one by one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import keras
import numpy as np

import tfbdl
from tfbdl.layers import LearnedScale
from tfbdl.likelihoods import Likelihood
from tutorials.uci.split import Split

Layers = list[keras.layers.Layer]

START_SCALE = 0.5
"""The scale at the start of a noise that is learned, for normalised targets."""
STEPS_AN_EPOCH = 500
"""At least: fewer are a call each, which takes longer than they do."""


def plain(args: argparse.Namespace) -> Layers:
    """Two dense layers; the output is the mean."""
    return with_outputs(1, args)


def one_noise(args: argparse.Namespace) -> Layers:
    """The plain layers, and a noise that is learned, one for all x."""
    return [*plain(args), LearnedScale(START_SCALE)]


def predicted_noise(args: argparse.Namespace) -> Layers:
    """Two dense layers; a second output is the noise, which differs with x."""
    return with_outputs(2, args)


def with_outputs(number: int, args: argparse.Namespace) -> Layers:
    """Two dense layers with so many outputs."""
    return [keras.layers.Dense(args.hidden, "relu"), keras.layers.Dense(number)]


def sequential(layers: Layers, data: Split) -> keras.Model:
    """A network of these layers for the inputs of these data."""
    return keras.Sequential([keras.Input((data.x.shape[1],)), *layers])


def num_epochs(data: Split, args: argparse.Namespace) -> int:
    """How often `trained` ends an epoch."""
    x, _, batch_size = long_epoch(data, args)
    return -(-args.steps // (len(x) // batch_size))


def trained(
    model: keras.Model,
    likelihood: Likelihood,
    data: Split,
    args: argparse.Namespace,
    *,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    optimizer: keras.optimizers.Optimizer | None = None,
    epochs: int | None = None,
) -> keras.Model:
    """The network after at least `args.steps` steps, by default of Adam, at a `falling` rate.

    Or after so many epochs of `num_epochs`.
    """
    x, y, batch_size = long_epoch(data, args)
    model.compile(optimizer or keras.optimizers.Adam(falling(args.rate, args)), likelihood)
    tfbdl.train(
        model,
        x,
        y,
        epochs=epochs or num_epochs(data, args),
        batch_size=batch_size,
        callbacks=callbacks,
        seed=args.seed,
        verbose=0,
    )
    return model


def falling(rate: float, args: argparse.Namespace) -> keras.optimizers.schedules.CosineDecay:
    """A learning rate that falls to 0 by a cosine over the steps of a training."""
    return keras.optimizers.schedules.CosineDecay(rate, args.steps)


def long_epoch(data: Split, args: argparse.Namespace) -> tuple[np.ndarray, np.ndarray, int]:
    """Inputs and targets, each as often as an epoch has it, and examples a step."""
    batch_size = min(args.batch_size, len(data.x))
    repeats = -(-min(STEPS_AN_EPOCH, args.steps) * batch_size // len(data.x))
    x, y = (np.repeat(a, repeats, axis=0) for a in (data.x, data.y))
    return x, y, batch_size
