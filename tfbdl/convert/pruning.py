"""Pruning by signal to noise: the weights with the smallest |mean| / stddev are removed."""

from __future__ import annotations

from collections.abc import Iterator

import keras
import numpy as np

from tfbdl.arguments import number
from tfbdl.convert.exchange import exchange
from tfbdl.convert.inside import Rule
from tfbdl.copying import copy_layer, copy_state
from tfbdl.keras_private import walk
from tfbdl.layers.base import BayesLayer
from tfbdl.model_arguments import keras_model
from tfbdl.posteriors import Posterior


def prune(model: keras.Model, fraction: float) -> keras.Model:
    """A copy of `model` in which the `fraction` of random weights with least |mu| / sigma is zero.

    Weights of all layers are ranked together, biases with them, as in Blundell et al. (2015,
    section 5.2). Removed weights are 0 in every drawn function. Training the copy further lets the
    removed weights grow again.

    Args:
        model: a functional or a built Sequential model with Bayesian layers.
        fraction: the fraction of the weights to remove, in [0, 1). Equal ratios are removed in the
            order of the layers.

    Returns:
        The pruned copy, compiled as `model`.

    Raises:
        ValueError: if `fraction` is out of range, no layer has random weights, or their posterior
            has no elements that could be removed one by one.
    """
    keras_model("model", model)
    number("fraction", fraction, lambda f: 0 <= f < 1, "in [0, 1)")
    kinds = {type(layer) for layer in walk(model) if isinstance(layer, BayesLayer)}
    if not kinds:
        raise ValueError(f"model={model.name!r} has no layer with random weights; nothing to prune")
    pruned = exchange(model, {kind: Rule(copy_layer, copy_state) for kind in kinds})
    posteriors = list(random_weights(pruned))
    ratios = np.concatenate([signal_to_noise(q).ravel() for q in posteriors])
    removed = np.zeros(len(ratios), bool)
    removed[np.argsort(ratios, kind="stable")[: round(fraction * len(ratios))]] = True
    start = 0
    for q in posteriors:
        size = int(np.prod(q.mean.shape))
        q.remove(removed[start : start + size].reshape(q.mean.shape))
        start += size
    return pruned


def random_weights(model: keras.Model) -> Iterator[Posterior]:
    """The posteriors of all layers of `model`, each once."""
    for layer in walk(model):
        if isinstance(layer, BayesLayer):
            yield from layer.random_weights


def signal_to_noise(posterior: Posterior) -> np.ndarray:
    """|mu| / sigma of each weight, of the weight's shape; infinite without noise."""
    mu, sigma = np.abs(posterior.mean), np.asarray(posterior.stddev)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sigma > 0, mu / sigma, np.where(mu > 0, np.inf, 0.0))
