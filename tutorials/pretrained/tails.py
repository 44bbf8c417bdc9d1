"""The last blocks fine-tuned, each method in its way; the blocks before stay as they are.

The body is cut behind a block: what it gives there is computed once for all images, and the tail,
its last blocks with a softmax behind them, is trained on that. What is trained are the convolutions
that mix channels, nearly all of the weights: those of single channels would take half of the time
on a CPU. They stay as they are, and so does normalisation with the statistics of ImageNet.
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
from tutorials.pretrained.training import PRECISION, classes, compiled, settings

CUT = "block_10_sum"
RATE = 3e-4
SWAG_RATE = 0.01
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
    args: argparse.Namespace, pretrained: keras.Model, num_data: int, dropout: float = 0.0
) -> keras.Model:
    """A copy of the tail with a softmax behind it, ready to be trained.

    Args:
        args: the flags.
        pretrained: the tail as ImageNet has left it.
        num_data: N.
        dropout: the rate of dropout before the softmax.
    """
    copy = keras.models.clone_model(pretrained)
    copy.set_weights(pretrained.get_weights())
    for layer in copy.layers:
        layer.trainable = is_trained(layer)
    features = copy.output
    if dropout:
        features = keras.layers.Dropout(dropout, seed=args.seed)(features)
    return ready(args, keras.Model(copy.input, classes(num_data)(features)), num_data)


def is_trained(layer: keras.layers.Layer) -> bool:
    """Whether a layer mixes channels."""
    return isinstance(layer, (keras.layers.Conv2D, keras.layers.Dense))


def ready(args: argparse.Namespace, network: keras.Model, num_data: int) -> keras.Model:
    """The network, compiled for as many epochs as all."""
    return compiled(args, network, num_data=num_data, epochs=args.tail_epochs, rate=RATE)


def trained(
    args: argparse.Namespace, network: keras.Model, x: np.ndarray, y: np.ndarray
) -> keras.Model:
    """The network, trained."""
    tfbdl.train(network, x, y, seed=args.seed, **settings(args, args.tail_epochs))
    return network


def fine_tuned(
    args: argparse.Namespace, pretrained: keras.Model, x: np.ndarray, y: np.ndarray
) -> keras.Model:
    """One network, beginning at the pretrained weights."""
    keras.utils.set_random_seed(args.seed)
    return trained(args, tail(args, pretrained, len(x)), x, y)


def mc_dropout(
    args: argparse.Namespace, pretrained: keras.Model, x: np.ndarray, y: np.ndarray
) -> keras.Model:
    """The same with dropout before the softmax, drawn when it is asked."""
    keras.utils.set_random_seed(args.seed)
    network = trained(args, tail(args, pretrained, len(x), DROPPED), x, y)
    return tfbdl.to_mc_dropout(network)


def bayes_by_backprop(
    args: argparse.Namespace, pretrained: keras.Model, x: np.ndarray, y: np.ndarray
) -> keras.Model:
    """Distributions around the fine-tuned weights."""
    plain = fine_tuned(args, pretrained, x, y)
    plain.get_layer("classes").kernel_regularizer = None  # the prior is in the KL
    network = tfbdl.to_bayesian(
        plain,
        num_data=len(x),
        layers=is_trained,
        prior=PRECISION**-0.5,
        initial_sigma=STDDEV,
        estimator="flipout",
    )
    return trained(args, ready(args, network, len(x)), x, y)


def swag(args: argparse.Namespace, pretrained: keras.Model, x: np.ndarray, y: np.ndarray) -> SWAG:
    """The moments of a path at a constant rate, from the fine-tuned weights on."""
    network = fine_tuned(args, pretrained, x, y)
    network.compile(keras.optimizers.SGD(SWAG_RATE, momentum=0.9), Categorical())
    return SWAG(network, rank=10).fit(x, y, **settings(args, args.tail_epochs))


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
        if is_trained(layer):
            layer.enable_lora(args.rank)
    trained(args, ready(args, network, len(x)), x, y)
    posterior = Laplace(network, subset_of_weights="lora", hessian_structure="kron")
    return posterior.fit(x, y).optimize_prior_precision()


def ensemble(
    args: argparse.Namespace, pretrained: keras.Model, x: np.ndarray, y: np.ndarray
) -> DeepEnsemble:
    """Tails that differ in their softmax at the start, and in the order of the examples."""
    build = lambda: tail(args, pretrained, len(x))  # noqa: E731
    members = DeepEnsemble(build, args.K, seed=args.seed)
    return members.fit(x, y, **settings(args, args.tail_epochs))


METHODS: dict[str, Method] = {
    "fine-tuned": fine_tuned,
    "MC dropout": mc_dropout,
    "Bayes by Backprop": bayes_by_backprop,
    "SWAG": swag,
    "Laplace": laplace,
    "LoRA Laplace": lora_laplace,
    "ensemble": ensemble,
}
