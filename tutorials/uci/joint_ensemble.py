"""Deep ensembles whose members train together in one compiled loop.

When to stop is chosen on the last 20 % of the training part, for the ensemble as a whole.
"""

from __future__ import annotations

import argparse
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfbdl
from tfbdl.flat_model import FlatModel
from tfbdl.inference.joint_training import epochs_together
from tfbdl.likelihoods import Likelihood, Normal
from tfbdl.models import WeightEnsemble
from tfbdl.predictive import Prediction
from tutorials.uci.batch_ensemble import MEMBERS
from tutorials.uci.networks import Layers, predicted_noise, sequential
from tutorials.uci.split import Split

LOOKS = 40
"""How often an ensemble is asked about what it is not trained on, at most: some networks fit after
a hundredth of the epochs that others need, so that looks are as many in each doubling."""


def deep_ensemble(data: Split, args: argparse.Namespace) -> tuple[Prediction, dict[str, Any]]:
    """Networks from different starts, with a noise that differs with x."""
    epochs = best_epochs(data, args)
    ensemble = WeightEnsemble(
        sequential(predicted_noise(args), data), members_after(epochs, predicted_noise, data, args)
    )
    prediction = tfbdl.predict(
        ensemble,
        data.x_test,
        args.K,
        likelihood=Normal("predicted"),
        return_samples=True,
        verbose=0,
    )
    return prediction, {"epochs": epochs}


def deep_ensemble_32(data: Split, args: argparse.Namespace) -> tuple[Prediction, dict[str, Any]]:
    """As many as the batch ensemble has members: a step of both takes about as long."""
    return deep_ensemble(data, argparse.Namespace(**{**vars(args), "K": MEMBERS}))


def best_epochs(data: Split, args: argparse.Namespace) -> int:
    """The number of epochs after which K networks predict best together."""
    held_out = data.validation
    flat = FlatModel(sequential(predicted_noise(args), held_out))
    score = tf.function(functools.partial(log_density, flat, Normal("predicted")))
    test = tf.constant(held_out.x_test), tf.constant(held_out.y_test)
    most = max(args.steps * args.batch_size // len(held_out.x), 1)
    looks = set(np.geomspace(1, most, LOOKS).astype(int))
    path = enumerate(members(predicted_noise, args.K, held_out, args))
    scores = {
        epoch: float(score(tf.constant(theta), *test))
        for epoch, theta in itertools.islice(path, most + 1)
        if epoch in looks
    }
    return max(scores, key=scores.__getitem__)


def log_density(
    flat: FlatModel, likelihood: Likelihood, theta: tf.Tensor, x: tf.Tensor, y: tf.Tensor
) -> tf.Tensor:
    """The mean over examples of log 1/K sum_k p(y | f(theta_k, x)), in nats."""
    logs = tf.vectorized_map(lambda one: likelihood.log_prob(y, flat(one, x)), theta)  # (K, N)
    return tf.reduce_mean(tf.reduce_logsumexp(logs, axis=0)) - tf.math.log(float(theta.shape[0]))


def members_after(
    epochs: int,
    layers: Callable[[argparse.Namespace], Layers],
    data: Split,
    args: argparse.Namespace,
    num_members: int | None = None,
) -> np.ndarray:
    """The weights of K networks, or so many, shape (K, D), after epochs."""
    path = members(layers, num_members or args.K, data, args)
    return next(itertools.islice(path, epochs, None))


def members(
    layers: Callable[[argparse.Namespace], Layers],
    num_members: int,
    data: Split,
    args: argparse.Namespace,
) -> Iterator[np.ndarray]:
    """The weights of networks of these layers, which predict the noise too, after each epoch.

    Network k has the Keras seed `args.seed + k`; the first weights are those before any epoch.
    """
    networks = []
    for k in range(num_members):
        keras.utils.set_random_seed(args.seed + k)
        network = sequential(layers(args), data)
        network.compile(keras.optimizers.Adam(args.rate), Normal("predicted"))
        networks.append(network)
    return epochs_together(
        networks,
        (tf.constant(data.x), tf.constant(data.y)),
        orders(len(data.x), num_members, args.seed),
        batch_size=min(args.batch_size, len(data.x)),
    )


def orders(num_data: int, num_members: int, seed: int) -> Iterator[np.ndarray]:
    """The orders of the examples in each epoch, shape (K, N), without an end."""
    rng = np.random.default_rng(seed)
    while True:
        yield np.stack([rng.permutation(num_data) for _ in range(num_members)])
