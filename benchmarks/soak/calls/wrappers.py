"""Layers around another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras

from soak.calls.case import Case, Made, Wrong
from soak.calls.layers import BAYESIAN, SEQUENCES, any_length, called, case
from tfbdl import layers

EXCHANGED: dict[str, tuple[Any, Any]] = {
    "layer": (
        Made(lambda: keras.layers.TimeDistributed(keras.layers.Dropout(0.1))),
        Made(lambda: keras.layers.TimeDistributed(keras.layers.Dropout(0.2))),
    ),
    "inner": (Made(lambda: {"layer": layers.MCDropout(0.5)}), Made(dict)),
}
WRAPPER: dict[str, tuple[Any, Any]] = {
    **BAYESIAN,
    "layer": (Made(lambda: keras.layers.Dense(3)), Made(lambda: keras.layers.Dense(3, "tanh"))),
    "weights": (None, ("kernel", "bias")),
    "estimator": ("reparameterization", "flipout"),
    "bias_prior": (None, 2.0),
    "bias_posterior": (None, "point"),
    "activity_regularizer": (None, "l2"),
}
MEMBERS: dict[str, tuple[Any, Any]] = {
    "layer": (Made(lambda: keras.layers.Dense(3)), Made(lambda: keras.layers.Dense(3, "tanh"))),
    "num_members": (2, 3),
    "input_initializer": ("near_one", "random_sign"),
    "output_initializer": ("ones", "random_sign"),
}


def _exchanged(kind: type, **arguments: Any) -> dict[str, Any]:
    return called(kind(**arguments), SEQUENCES, (None, None))


def cases() -> Iterator[Case]:
    """One for each."""
    yield case(layers.BayesWrapper, any_length, WRAPPER)
    yield case(layers.BatchEnsembleWrapper, any_length, MEMBERS)
    random = {
        **BAYESIAN,
        **MEMBERS,
        "estimator": ("reparameterization", Wrong("flipout")),
        "bias_prior": (None, Wrong(1.0)),
        "bias_posterior": (None, Wrong("point")),
    }
    yield case(layers.BayesBatchEnsembleWrapper, any_length, random)
    bounded = {
        "layer": (Made(lambda: keras.layers.Dense(3)), Made(lambda: keras.layers.Dense(2))),
        "norm_bound": (0.95, 0.5),
        "power_iterations": (1, 2),
    }
    yield case(layers.BoundedSpectralNormalization, any_length, bounded)
    yield case(layers.Exchanged, _exchanged, EXCHANGED, slow=False)
