"""Bayesian networks as plain Keras networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from tfbdl import random
from tfbdl.convert.exchange import exchange
from tfbdl.convert.inside import Rule
from tfbdl.convert.parts import arguments_of, pairs_of_weights, swapped
from tfbdl.convert.random_layer import COUNTERPARTS
from tfbdl.convert.selection import Layer
from tfbdl.copying import copy_layer, copy_state, describe
from tfbdl.keras_private import walk
from tfbdl.layers import (
    BayesWrapper,
    ConcreteDropout,
    MCDropout,
    MCGaussianDropout,
    VariationalDropout,
)

_ONLY_BAYESIAN = {
    "num_data",
    "prior",
    "posterior",
    "estimator",
    "bias_prior",
    "bias_posterior",
    "recurrent_prior",
    "recurrent_posterior",
    "seed",
    "kl",
}


def to_deterministic(model: keras.Model) -> keras.Model:
    """A copy of a Bayesian model in Keras' own layers, at the mean of the weights.

    BayesDense, BayesConv2D, BayesLSTM and so on become the layers of Keras of these names,
    BayesWrapper becomes the layer it wraps, VariationalDropout Dense, MCDropout Dropout,
    MCGaussianDropout GaussianDropout, and ConcreteDropout becomes the layer it wraps, under that
    layer's own name and without the learned rate. Predictions are those of `model` at
    `training=False`, and the file that the copy is saved to loads without this package, with
    `compile=False` if the loss is one of its likelihoods.

    Args:
        model: a functional or a built Sequential model, with models of these kinds in it.

    Returns:
        The converted model, compiled as `model`, with its inputs and outputs.

    Raises:
        ValueError: if there is nothing to convert, or a layer that cannot be.
    """
    converted = exchange(model, _RULES, plain=True)
    for layer in walk(converted):
        if type(layer).__module__.split(".")[0] == "tfbdl":
            raise ValueError(f"{describe(layer)} has no counterpart in Keras; take it out first")
    return converted


def _to(kind: type[Layer]) -> Callable[[Any], Layer]:
    def make(old: Any) -> Layer:
        kept = arguments_of(old)
        return kind(**{name: kept[name] for name in kept.keys() - _ONLY_BAYESIAN})

    return make


def _take_all(old: BayesWrapper, new: Any) -> None:
    copy_state(old.layer, new)
    _take_means(old, new)


def _take_means(old: Any, new: Any) -> None:
    for w, q in pairs_of_weights(new, old):
        w.assign(swapped(old, q, q.mean))
        w.trainable = q.trainable


def _dropout(old: MCDropout) -> Layer:
    return keras.layers.Dropout(
        old.rate, old.noise_shape, _keras_seed(old), name=old.name, dtype=old.dtype_policy
    )


def _gaussian_dropout(old: MCGaussianDropout) -> Layer:
    if old.noise_shape is not None:
        raise ValueError(
            f"{describe(old)} has noise_shape={old.noise_shape}, which Keras' GaussianDropout "
            "does not have; take it out first"
        )
    return keras.layers.GaussianDropout(
        old.rate, _keras_seed(old), name=old.name, dtype=old.dtype_policy
    )


def _keras_seed(old: MCDropout) -> int | None:
    return None if old.seed.seed is None else random.word(old.seed.seed)


_RULES: dict[type[Layer], Rule] = {
    **{bayesian: Rule(_to(plain), _take_means) for plain, bayesian in COUNTERPARTS.items()},
    VariationalDropout: Rule(_to(keras.layers.Dense), _take_means),
    BayesWrapper: Rule(lambda old: copy_layer(old.layer), _take_all),
    MCDropout: Rule(_dropout),
    MCGaussianDropout: Rule(_gaussian_dropout),
    ConcreteDropout: Rule(
        lambda old: copy_layer(old.layer), lambda old, new: copy_state(old.layer, new)
    ),
}
