"""Heads on features that stay as they are: from one softmax to posteriors over its weights.

Each method takes features and labels, and gives a model or a posterior that `tfbdl.predict` asks.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import tfbdl
from tfbdl.inference import DeepEnsemble, Laplace, NeuralLinear
from tfbdl.layers import BayesDense, MCDropout
from tfbdl.likelihoods import Categorical
from tutorials.pretrained.problem import KNOWN

DECAY = 1.0
"""The precision of the normal prior of each weight: features are of size 1."""

Method = Callable[[argparse.Namespace, np.ndarray, np.ndarray], Any]


def dense(num_data: int) -> keras.layers.Dense:
    """The softmax's logits, with the prior in the loss."""
    decay = keras.regularizers.L2(0.5 * DECAY / num_data)
    return keras.layers.Dense(len(KNOWN), kernel_regularizer=decay, name="classes")


def compiled(args: argparse.Namespace, num_data: int, *layers: keras.layers.Layer) -> keras.Model:
    """Layers on the features, to be trained with a rate that falls to 0."""
    network = keras.Sequential([keras.Input((args.features,)), *layers])
    steps = args.n_epochs * (num_data // args.batch_size)
    rate = keras.optimizers.schedules.CosineDecay(1e-3, steps)
    network.compile(
        keras.optimizers.Adam(rate), Categorical(), metrics=["sparse_categorical_accuracy"]
    )
    return network


def trained(args: argparse.Namespace, network: keras.Model, x: np.ndarray, y: np.ndarray) -> Any:
    settings = {"epochs": args.n_epochs, "batch_size": args.batch_size, "seed": args.seed}
    tfbdl.train(network, x, y, **settings, verbose=0)
    return network


def softmax(args: argparse.Namespace, x: np.ndarray, y: np.ndarray) -> keras.Model:
    """One network: the point estimate that the others are held against."""
    keras.utils.set_random_seed(args.seed)
    return trained(args, compiled(args, len(x), dense(len(x))), x, y)


def mc_dropout(args: argparse.Namespace, x: np.ndarray, y: np.ndarray) -> keras.Model:
    """Dropout of a third of the features, drawn when it is asked."""
    keras.utils.set_random_seed(args.seed)
    return trained(args, compiled(args, len(x), MCDropout(1 / 3), dense(len(x))), x, y)


def bayes_by_backprop(args: argparse.Namespace, x: np.ndarray, y: np.ndarray) -> keras.Model:
    """A normal posterior for each weight, by the bound."""
    keras.utils.set_random_seed(args.seed)
    head = BayesDense(
        len(KNOWN), num_data=len(x), prior=DECAY**-0.5, estimator="local_reparameterization"
    )
    return trained(args, compiled(args, len(x), head), x, y)


def laplace(args: argparse.Namespace, x: np.ndarray, y: np.ndarray) -> Laplace:
    """A normal posterior of all weights of the softmax around their mode; the prior by evidence."""
    posterior = Laplace(softmax(args, x, y), hessian_structure="kron", prior_precision=DECAY)
    return posterior.fit(x, y).optimize_prior_precision()


def neural_linear(args: argparse.Namespace, x: np.ndarray, y: np.ndarray) -> NeuralLinear:
    """Exact linear regression of one-hot labels on the features."""
    network = keras.Sequential([keras.Input((args.features,)), keras.layers.Dense(len(KNOWN))])
    network.compile("sgd", tfbdl.likelihoods.Normal(1.0))
    posterior = NeuralLinear(network).fit(x, np.eye(len(KNOWN), dtype="float32")[y])
    return posterior.optimize_prior_precision()


def ensemble(args: argparse.Namespace, x: np.ndarray, y: np.ndarray) -> DeepEnsemble:
    """Softmaxes that differ in where they start and in the order of the examples."""
    members = DeepEnsemble(lambda: compiled(args, len(x), dense(len(x))), args.K, seed=args.seed)
    return members.fit(x, y, epochs=args.n_epochs, batch_size=args.batch_size, verbose=0)


METHODS: dict[str, Method] = {
    "softmax": softmax,
    "MC dropout": mc_dropout,
    "Bayes by Backprop": bayes_by_backprop,
    "Laplace": laplace,
    "neural linear": neural_linear,
    "ensemble": ensemble,
}
