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
    return [keras.layers.Dense(args.hidden, "relu"), keras.layers.Dense(1)]


def one_noise(args: argparse.Namespace) -> Layers:
    """The plain layers, and a noise that is learned, one for all x."""
    return [*plain(args), LearnedScale(START_SCALE)]


def predicted_noise(args: argparse.Namespace) -> Layers:
    """Two dense layers; a second output is the noise, which differs with x."""
    return [keras.layers.Dense(args.hidden, "relu"), keras.layers.Dense(2)]


def sequential(layers: Layers, data: Split) -> keras.Model:
    """A network of these layers for the inputs of these data."""
    return keras.Sequential([keras.Input((data.x.shape[1],)), *layers])


def num_epochs(data: Split, args: argparse.Namespace) -> int:
    """How often `trained` ends an epoch."""
    return -(-args.steps // _schedule(data, args)[2])


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
    repeats, batch_size, _ = _schedule(data, args)
    model.compile(optimizer or keras.optimizers.Adam(falling(args.rate, args)), likelihood)
    tfbdl.train(
        model,
        np.repeat(data.x, repeats, axis=0),
        np.repeat(data.y, repeats, axis=0),
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


def _schedule(data: Split, args: argparse.Namespace) -> tuple[int, int, int]:
    """How often an epoch has each example, examples a step, and steps an epoch."""
    batch_size = min(args.batch_size, len(data.x))
    repeats = -(-min(STEPS_AN_EPOCH, args.steps) * batch_size // len(data.x))
    return repeats, batch_size, repeats * len(data.x) // batch_size
