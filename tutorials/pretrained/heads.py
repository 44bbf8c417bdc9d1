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
from tutorials.pretrained.problem import KNOWN
from tutorials.pretrained.training import PRECISION, classes, compiled, settings

RATE = 1e-3
Method = Callable[[argparse.Namespace, np.ndarray, np.ndarray], Any]


def head(args: argparse.Namespace, x: np.ndarray, *layers: keras.layers.Layer) -> keras.Model:
    """Layers on the features, ready to be trained."""
    network = keras.Sequential([keras.Input(x.shape[1:]), *layers])
    return compiled(args, network, num_data=len(x), epochs=args.n_epochs, rate=RATE)


def trained(
    args: argparse.Namespace, x: np.ndarray, y: np.ndarray, *layers: keras.layers.Layer
) -> keras.Model:
    """Layers on the features, trained."""
    network = head(args, x, *layers)
    tfbdl.train(network, x, y, seed=args.seed, **settings(args, args.n_epochs))
    return network


def softmax(args: argparse.Namespace, x: np.ndarray, y: np.ndarray) -> keras.Model:
    """One network: the point estimate that the others are held against."""
    keras.utils.set_random_seed(args.seed)
    return trained(args, x, y, classes(len(x)))


def mc_dropout(args: argparse.Namespace, x: np.ndarray, y: np.ndarray) -> keras.Model:
    """Dropout of a third of the features, drawn when it is asked."""
    keras.utils.set_random_seed(args.seed)
    return trained(args, x, y, MCDropout(1 / 3), classes(len(x)))


def bayes_by_backprop(args: argparse.Namespace, x: np.ndarray, y: np.ndarray) -> keras.Model:
    """A normal posterior for each weight, by the bound."""
    keras.utils.set_random_seed(args.seed)
    prior, estimator = PRECISION**-0.5, "local_reparameterization"
    layer = BayesDense(len(KNOWN), num_data=len(x), prior=prior, estimator=estimator)
    return trained(args, x, y, layer)


def laplace(args: argparse.Namespace, x: np.ndarray, y: np.ndarray) -> Laplace:
    """A normal posterior of all weights of the softmax around their mode; the prior by evidence."""
    posterior = Laplace(softmax(args, x, y), hessian_structure="kron", prior_precision=PRECISION)
    return posterior.fit(x, y).optimize_prior_precision()


def neural_linear(args: argparse.Namespace, x: np.ndarray, y: np.ndarray) -> NeuralLinear:
    """Exact linear regression of one-hot labels on the features."""
    network = keras.Sequential([keras.Input(x.shape[1:]), keras.layers.Dense(len(KNOWN))])
    network.compile("sgd", tfbdl.likelihoods.Normal(1.0))
    posterior = NeuralLinear(network).fit(x, np.eye(len(KNOWN), dtype="float32")[y])
    return posterior.optimize_prior_precision()


def ensemble(args: argparse.Namespace, x: np.ndarray, y: np.ndarray) -> DeepEnsemble:
    """Softmaxes that differ in where they start and in the order of the examples."""
    members = DeepEnsemble(lambda: head(args, x, classes(len(x))), args.K, seed=args.seed)
    return members.fit(x, y, **settings(args, args.n_epochs))


METHODS: dict[str, Method] = {
    "softmax": softmax,
    "MC dropout": mc_dropout,
    "Bayes by Backprop": bayes_by_backprop,
    "Laplace": laplace,
    "neural linear": neural_linear,
    "ensemble": ensemble,
}
