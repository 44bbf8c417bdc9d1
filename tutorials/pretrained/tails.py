"""The last blocks fine-tuned, each method in its way; the blocks before stay as they are.

The body is cut behind a block: what it gives there is computed once for all images, and the tail,
its last blocks with a softmax behind them, is trained on that. Normalisation keeps the statistics
of ImageNet.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import tfbdl
from tfbdl.inference import SWAG, DeepEnsemble, Laplace
from tfbdl.likelihoods import Categorical
from tutorials.pretrained.heads import DECAY, dense

CUT = "block_10_sum"
RATE = 3e-4
DROPPED = 0.2
STDDEV = 0.02
"""Standard deviations of weights at the start of Bayes by Backprop, as shares of their means."""

Method = Callable[[argparse.Namespace, keras.Model, np.ndarray, np.ndarray], Any]


def cut(body: keras.Model) -> tuple[keras.Model, keras.Model]:
    """The body up to the cut, and its tail, both with the body's weights."""
    middle = body.get_layer(CUT).output
    trunk = keras.Model(body.input, middle, name="trunk")
    return trunk, keras.Model(middle, body.output, name="tail")


def tail(
    args: argparse.Namespace, pretrained: keras.Model, num_data: int, **head: Any
) -> keras.Model:
    """A copy of the tail with a softmax behind it, ready to be trained.

    Args:
        args: the flags.
        pretrained: the tail as ImageNet has left it.
        num_data: N.
        **head: `dropout`, a rate of dropout before the softmax.
    """
    copy = keras.models.clone_model(pretrained)
    copy.set_weights(pretrained.get_weights())
    for layer in copy.layers:
        layer.trainable = not isinstance(layer, keras.layers.BatchNormalization)
    features = copy.output
    if head.get("dropout"):
        features = keras.layers.Dropout(head["dropout"], seed=args.seed)(features)
    network = keras.Model(copy.input, dense(num_data)(features), name="fine_tuned")
    return compiled(args, network, num_data)


def compiled(args: argparse.Namespace, network: keras.Model, num_data: int) -> keras.Model:
    """With Adam, whose rate falls to 0 over the epochs."""
    steps = args.tail_epochs * (num_data // args.batch_size)
    rate = keras.optimizers.schedules.CosineDecay(RATE, steps)
    accuracy = ["sparse_categorical_accuracy"]
    network.compile(keras.optimizers.Adam(rate), Categorical(), metrics=accuracy)
    return network


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """How all methods train."""
    return {"epochs": args.tail_epochs, "batch_size": args.batch_size, "verbose": 0}


def fine_tuned(
    args: argparse.Namespace, pretrained: keras.Model, x: np.ndarray, y: np.ndarray
) -> keras.Model:
    """One network, beginning at the pretrained weights."""
    keras.utils.set_random_seed(args.seed)
    network = tail(args, pretrained, len(x))
    tfbdl.train(network, x, y, seed=args.seed, **settings(args))
    return network


def mc_dropout(
    args: argparse.Namespace, pretrained: keras.Model, x: np.ndarray, y: np.ndarray
) -> keras.Model:
    """The same with dropout before the softmax, drawn when it is asked."""
    keras.utils.set_random_seed(args.seed)
    network = tail(args, pretrained, len(x), dropout=DROPPED)
    tfbdl.train(network, x, y, seed=args.seed, **settings(args))
    return tfbdl.convert.to_mc_dropout(network)


def bayes_by_backprop(
    args: argparse.Namespace, pretrained: keras.Model, x: np.ndarray, y: np.ndarray
) -> keras.Model:
    """Distributions around the fine-tuned weights of all convolutions and the softmax."""
    plain = fine_tuned(args, pretrained, x, y)
    network = tfbdl.convert.to_bayesian(
        plain, num_data=len(x), initial_sigma=STDDEV, prior=DECAY**-0.5, estimator="flipout"
    )
    compiled(args, network, len(x))
    tfbdl.train(network, x, y, seed=args.seed, **settings(args))
    return network


def swag(args: argparse.Namespace, pretrained: keras.Model, x: np.ndarray, y: np.ndarray) -> SWAG:
    """The moments of a path at a constant rate, from the fine-tuned weights on."""
    network = fine_tuned(args, pretrained, x, y)
    network.compile(keras.optimizers.SGD(0.01, momentum=0.9), Categorical())
    return SWAG(network, rank=10).fit(x, y, **settings(args) | {"epochs": 10})


def laplace(
    args: argparse.Namespace, pretrained: keras.Model, x: np.ndarray, y: np.ndarray
) -> Laplace:
    """A normal posterior of the softmax's weights; the prior by the evidence."""
    posterior = Laplace(fine_tuned(args, pretrained, x, y), hessian_structure="kron")
    return posterior.fit(x, y).optimize_prior_precision()


def lora_laplace(
    args: argparse.Namespace, pretrained: keras.Model, x: np.ndarray, y: np.ndarray
) -> Laplace:
    """Low-rank factors are all that is trained, and what has a posterior (Yang et al. 2024)."""
    keras.utils.set_random_seed(args.seed)
    network = tail(args, pretrained, len(x))
    for layer in network.layers:
        if isinstance(layer, (keras.layers.Conv2D, keras.layers.Dense)):
            layer.enable_lora(args.rank)
    network = compiled(args, network, len(x))
    tfbdl.train(network, x, y, seed=args.seed, **settings(args))
    posterior = Laplace(network, subset_of_weights="lora", hessian_structure="kron")
    return posterior.fit(x, y).optimize_prior_precision()


def ensemble(
    args: argparse.Namespace, pretrained: keras.Model, x: np.ndarray, y: np.ndarray
) -> DeepEnsemble:
    """Tails that differ in their softmax at the start, and in the order of the examples."""
    build = lambda: tail(args, pretrained, len(x))  # noqa: E731
    return DeepEnsemble(build, args.K, seed=args.seed).fit(x, y, **settings(args))


METHODS: dict[str, Method] = {
    "fine-tuned": fine_tuned,
    "MC dropout": mc_dropout,
    "Bayes by Backprop": bayes_by_backprop,
    "SWAG": swag,
    "Laplace": laplace,
    "LoRA Laplace": lora_laplace,
    "ensemble": ensemble,
}
