"""What converts networks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras

import tfbdl
from soak.calls.case import Case, Made, N, X, shaped
from soak.calls.networks import classifier, network, random_network


def _converted(actual: keras.Model) -> Any:
    shaped(actual(X), N, 3)
    config = [layer.get_config() for layer in actual.layers]
    return {"y": actual(X), "config": config, "weights": actual.get_weights()}


def _dropout() -> keras.Model:
    return network(keras.layers.Dropout(0.5, seed=1), keras.layers.Dense(3, name="last"))


def cases() -> Iterator[Case]:
    """One for each."""
    yield from _of_weights()
    yield from _of_others()


def _of_weights() -> Iterator[Case]:
    plain = (Made(classifier), Made(lambda: network(keras.layers.Dense(3, name="other"))))
    bayesian = {
        "model": plain,
        "num_data": (10, 20),
        "prior": (1.0, "laplace"),
        "posterior": ("mean_field", "point"),
        "estimator": ("reparameterization", "flipout"),
        "bias_prior": (None, 0.5),
        "bias_posterior": (None, "point"),
        "layers": (None, "nowhere"),
        "skip": (None, "nowhere"),
        "initial_sigma": (0.1, 0.2),
    }
    yield Case(
        "tfbdl.to_bayesian",
        tfbdl.to_bayesian,
        lambda **given: _converted(tfbdl.to_bayesian(**given)),
        bayesian,
        slow=True,
    )
    ensemble = {
        "model": plain,
        "num_members": (2, 3),
        "initializer": (None, "tabm"),
        "num_data": (10, 20),
        "prior": (0.1, "laplace"),
        "posterior": ("mean_field", "point"),
        "layers": (None, "nowhere"),
        "skip": (None, "nowhere"),
    }
    yield Case(
        "tfbdl.to_batch_ensemble",
        tfbdl.to_batch_ensemble,
        lambda **given: _converted(tfbdl.to_batch_ensemble(**given).network),
        ensemble,
        slow=True,
    )
    yield Case(
        "tfbdl.to_sngp",
        tfbdl.to_sngp,
        lambda **given: _converted(tfbdl.to_sngp(**given)),
        {
            "model": plain,
            "num_data": (10, 20),
            "likelihood": (None, "bernoulli"),
            "num_features": (4, 5),
            "length_scale": (1.0, 2.0),
            "ridge": (1.0, 0.5),
            "per_output": (False, True),
            "norm_bound": (0.95, 2.0),
            "seed": (1, 2),
            "layers": (None, "nowhere"),
            "skip": (None, "nowhere"),
        },
        slow=True,
    )


def _of_others() -> Iterator[Case]:
    yield Case(
        "tfbdl.to_mc_dropout",
        tfbdl.to_mc_dropout,
        lambda **given: _converted(tfbdl.to_mc_dropout(**given)),
        {
            "model": (Made(_dropout), Made(classifier)),
            "layers": (None, "last"),
            "skip": (None, "nowhere"),
        },
    )
    yield Case(
        "tfbdl.to_deterministic",
        tfbdl.to_deterministic,
        lambda model: _converted(tfbdl.to_deterministic(model)),
        {"model": (Made(random_network), Made(lambda: random_network(seed=3)))},
    )
    yield Case(
        "tfbdl.prune",
        tfbdl.prune,
        lambda **given: _converted(tfbdl.prune(**given)),
        {"model": (Made(random_network), Made(classifier)), "fraction": (0.5, 0.2)},
    )
