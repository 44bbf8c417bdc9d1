"""MultiSWAG: the path of gradient descent around each member of a deep ensemble.

Wilson and Izmailov (2020). The rate of the descent is chosen on the last 20 % of the training part,
by the path of one member.
"""

from __future__ import annotations

import argparse
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfbdl
from tfbdl.flat_model import FlatModel
from tfbdl.inference import SWAG, Mixture
from tfbdl.likelihoods import Normal
from tfbdl.predictive import Prediction
from tutorials.uci import held_out
from tutorials.uci.joint_ensemble import best_epochs, members_after
from tutorials.uci.networks import long_epoch, num_epochs, predicted_noise, sequential
from tutorials.uci.split import Split

RATES = (1e-4, 3e-4, 1e-3, 3e-3)
"""Rates of SGD, whose gradients have at most the norm 1."""


def multi_swag(data: Split, args: argparse.Namespace) -> tuple[Prediction, dict[str, Any]]:
    """Paths as long as the trainings of other methods, from networks that were stopped in time."""
    epochs = best_epochs(data, args)
    start = members_after(epochs, predicted_noise, data.validation, args, 1)
    rate = held_out.best(RATES, lambda rate, data: from_paths(start, rate, data, args), data)
    starts = members_after(epochs, predicted_noise, data, args)
    return from_paths(starts, rate, data, args), {"epochs": epochs, "rate": rate}


def from_paths(
    starts: np.ndarray, rate: float, data: Split, args: argparse.Namespace
) -> Prediction:
    """The prediction of functions drawn around the paths from these weights, shape (K, D)."""
    x, y, batch_size = long_epoch(data, args)
    paths = []
    for k, theta in enumerate(starts):
        network = sequential(predicted_noise(args), data)
        FlatModel(network).assign(tf.constant(theta))
        network.compile(keras.optimizers.SGD(rate, clipnorm=1.0), Normal("predicted"))
        paths.append(SWAG(network, seed=args.seed + k))
    mixture = Mixture(paths).fit(
        x, y, epochs=num_epochs(data, args), batch_size=batch_size, verbose=0
    )
    drawn = {"seed": args.seed, "return_samples": True, "verbose": 0}
    return tfbdl.predict(mixture, data.x_test, args.S, **drawn)
