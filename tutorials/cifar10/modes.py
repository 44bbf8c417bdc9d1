"""Modes: the files that hold their weights, and their use as starts of other runs.

Under the normalisation no kernel's scale changes the function, so that the posterior's density has
no mode proper: it grows as kernels shrink. A "mode" is where SGD ends, its kernels several times
smaller than draws of the posterior, which are as large as those of the prior.

Two ways lead from there to the posterior. Mean-field inference and Kronecker factors begin at the
same function with kernels of the prior's size; chains keep the kernels and shrink their prior
(`chains`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import keras
import numpy as np

from tutorials.cifar10 import problem
from tutorials.cifar10.answers import folder_of, mode_of
from tutorials.cifar10.predictions import read, write


def at_mode(
    args: argparse.Namespace, precision: float | None = problem.PRIOR_PRECISION
) -> keras.Model:
    """The network with the weights of the mode of a number, which has to be there."""
    return loaded(args, mode_of(vars(args)), problem.network(precision))


def scaled_to_prior(model: keras.Model, precision: float = problem.PRIOR_PRECISION) -> keras.Model:
    """Scales convolutions, so that kernels have the prior's mean square, and the function stays.

    The normalisation behind each takes out whatever factor its kernel and bias share.
    """
    for layer in problem.convolutions(model):
        kernel, bias = layer.get_weights()
        factor = 1.0 / np.sqrt(precision * np.mean(kernel**2))
        layer.set_weights([factor * kernel, factor * bias])
    return model


def save_weights(args: argparse.Namespace, model: keras.Model) -> None:
    """Writes the weights where a run has ended, float16."""
    arrays = {f"w{i}": w.numpy() for i, w in enumerate(model.trainable_weights)}
    write(weights_file(args, folder_of(args).name), arrays)


def loaded(args: argparse.Namespace, run: str, model: keras.Model) -> keras.Model:
    """Gives a model the weights at the end of a run of one like it."""
    path = weights_file(args, run)
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing; train it first")
    arrays = read(path)
    for i, weight in enumerate(model.trainable_weights):
        weight.assign(arrays[f"w{i}"])
    return model


def weights_file(args: argparse.Namespace, run: str) -> Path:
    """The weights at the end of a run, which has the name of its folder."""
    return args.results / "weights" / f"{run}.npz"
