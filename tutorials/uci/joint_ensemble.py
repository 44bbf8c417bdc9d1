"""Deep ensembles whose members train together in one compiled loop.

Each member k has weights theta_k, and batches in an order of its own, whose loss is
-1/B sum_b log p(y_b | f(theta_k, x_b)). The weights of all are one variable, (K, D): an optimizer
that moves each number by its own gradients, as Adam does, moves it as if members were trained by
themselves. It is what `tfbdl.inference.DeepEnsemble` does with one member after the other, for
networks so small that most of a step is not arithmetic.

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
from tfbdl.likelihoods import Likelihood, Normal
from tfbdl.models import WeightEnsemble
from tfbdl.predictive import Prediction
from tutorials.uci.networks import Layers, predicted_noise, sequential
from tutorials.uci.split import Split

LOOKS = 40
"""How often an ensemble is asked about what it is not trained on."""


def epochs(
    build: Callable[[], keras.Model],
    likelihood: Likelihood,
    x: np.ndarray,
    y: np.ndarray,
    *,
    num_members: int,
    optimizer: keras.optimizers.Optimizer,
    batch_size: int,
    seed: int,
) -> Iterator[np.ndarray]:
    """The members' weights, shape (K, D), before the first epoch and after each.

    Args:
        build: makes a network; called for each member, under its own Keras seed.
        likelihood: p(y | f(x)).
        x: shape (N, ...).
        y: shape (N, ...).
        num_members: K.
        optimizer: one that moves each number by its own gradients.
        batch_size: B; examples of an epoch that fill no batch are left out.
        seed: of the first member; the next ones have the next.
    """
    flats = []
    for k in range(num_members):
        keras.utils.set_random_seed(seed + k)
        flats.append(FlatModel(build()))
    flat, data = flats[0], (tf.constant(x), tf.constant(y))
    batch_size = min(batch_size, len(x))
    num_steps = len(x) // batch_size

    def gradient(member: tuple[tf.Tensor, ...]) -> tf.Tensor:
        theta, x, y = member
        with tf.GradientTape() as tape:
            tape.watch(theta)
            loss = -tf.reduce_mean(likelihood.log_prob(y, flat(theta, x)))
        return tape.gradient(loss, theta)

    theta = keras.Variable(tf.stack([member.theta for member in flats]))
    optimizer.build([theta])

    @tf.function(autograph=False, jit_compile=True)
    def epoch(orders: tf.Tensor) -> None:
        def step(i: tf.Tensor) -> tuple[tf.Tensor]:
            batches = [tf.gather(array, orders[i]) for array in data]  # (K, B, ...)
            gradients = tf.vectorized_map(gradient, (tf.convert_to_tensor(theta.value), *batches))
            optimizer.apply([gradients], [theta])
            return (i + 1,)

        tf.while_loop(lambda i: i < num_steps, step, (tf.constant(0),))

    rng = np.random.default_rng(seed)
    while True:
        yield theta.numpy()
        orders = np.stack([rng.permutation(len(x)) for _ in range(num_members)])
        orders = orders[:, : num_steps * batch_size].reshape(num_members, num_steps, batch_size)
        epoch(tf.constant(orders.swapaxes(0, 1), tf.int32))


def deep_ensemble(data: Split, args: argparse.Namespace) -> tuple[Prediction, dict[str, Any]]:
    """Networks from different starts, with a noise that differs with x."""
    held_out, likelihood = data.validation, Normal("predicted")
    network = sequential(predicted_noise(args), data)
    score = tf.function(functools.partial(log_density, FlatModel(network), likelihood))
    most = max(args.steps * args.batch_size // len(held_out.x), 1)
    every = max(most // LOOKS, 1)
    path = itertools.islice(
        members(predicted_noise, args.K, held_out, args), every, most + 1, every
    )
    test = tf.constant(held_out.x_test), tf.constant(held_out.y_test)
    scores = [float(score(tf.constant(theta), *test)) for theta in path]
    best = every * (int(np.argmax(scores)) + 1)
    theta = next(itertools.islice(members(predicted_noise, args.K, data, args), best, None))
    ensemble = WeightEnsemble(network, theta)
    prediction = tfbdl.predict(
        ensemble, data.x_test, args.K, likelihood=likelihood, return_samples=True, verbose=0
    )
    return prediction, {"epochs": best}


def log_density(
    flat: FlatModel, likelihood: Likelihood, theta: tf.Tensor, x: tf.Tensor, y: tf.Tensor
) -> tf.Tensor:
    """The mean over examples of log 1/K sum_k p(y | f(theta_k, x)), in nats."""
    logs = tf.vectorized_map(lambda one: likelihood.log_prob(y, flat(one, x)), theta)  # (K, N)
    return tf.reduce_mean(tf.reduce_logsumexp(logs, axis=0)) - tf.math.log(float(theta.shape[0]))


def members(
    layers: Callable[[argparse.Namespace], Layers],
    num_members: int,
    data: Split,
    args: argparse.Namespace,
) -> Iterator[np.ndarray]:
    """The `epochs` of networks of these layers, which predict the noise too."""
    return epochs(
        lambda: sequential(layers(args), data),
        Normal("predicted"),
        data.x,
        data.y,
        num_members=num_members,
        optimizer=keras.optimizers.Adam(args.rate),
        batch_size=args.batch_size,
        seed=args.seed,
    )
