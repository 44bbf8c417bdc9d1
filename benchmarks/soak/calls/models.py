"""Models of this package, and settings of a model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import keras
import numpy as np

import tfbdl
from soak.calls.case import LABELS, WEIGHTS, Case, Made, N, Wrong, X, shaped
from soak.calls.networks import (
    classifier,
    dropout_network,
    normalised,
    random_network,
)
from tfbdl import models
from tfbdl.draws import DrawnModel, make_draw
from tfbdl.flat_model import FlatModel

PIXELS = np.linspace(0.0, 1.0, N * 4, dtype="float32").reshape(N, 4)


@cache
def kept_vae(seed: int = 1) -> models.VAE:
    """A small autoencoder, built."""
    vae = models.VAE(2, (3,), seed=seed)
    vae.compile("sgd")
    vae.build((None, 4))
    return vae


def _weighted(**given: Any) -> Any:
    tfbdl.set_kl_weight(**given)
    given["model"](X)
    return list(given["model"].losses)


def _averaged(**given: Any) -> Any:
    tfbdl.set_num_samples(**given)
    keras.utils.set_random_seed(1)
    return given["model"].compute_loss(X, LABELS, given["model"](X, training=True))


def _vae(**given: Any) -> Any:
    vae = models.VAE(**given)
    vae.compile("sgd")
    y = shaped(vae(PIXELS, training=True), N, 4)
    return {"y": y, "mean": vae(PIXELS), "losses": list(vae.losses), "config": vae.get_config()}


def _own_network(units: int) -> keras.Model:
    return keras.Sequential([keras.layers.Dense(units, "tanh", kernel_initializer="ones")])


def _fitted(**given: Any) -> Any:
    vae = models.VAE(2, (3,), seed=1)
    vae.compile("sgd")
    return vae.fit(**given, batch_size=3, verbose=0).history


def _of_vae(method: str, seed_of_vae: int = 1, **given: Any) -> Any:
    return shaped(getattr(kept_vae(seed_of_vae), method)(**given), _length(given), *_tail(method))


def _length(given: Any) -> int:
    return len(given["x"]) if "x" in given else given.get("n", N)


def _tail(method: str) -> tuple[int, ...]:
    return (4,) if method == "sample" else ()


def _ensemble(actual: models.WeightEnsemble) -> Any:
    return {"y": shaped(actual(X), N, 3), "k": actual.num_functions, "members": actual.members}


def _named_ensemble(**given: Any) -> Any:
    actual = models.WeightEnsemble.of(**given)
    return {**_ensemble(actual), "name": actual.name}


def _shared(actual: models.BatchEnsemble) -> Any:
    return {"y": shaped(actual(X), N, 3), "k": actual.num_functions, "config": actual.get_config()}


def _drawn_weights(**given: Any) -> Any:
    model = models.NormalWeights(**given)
    draws = [DrawnModel(model)(X, draw=make_draw(0, s)) for s in range(2)]
    return {"y": shaped(model(X), N, 3), "draws": draws}


def cases() -> Iterator[Case]:
    """Each function, callback and model."""
    yield from _settings()
    yield from _vaes()
    yield from _reweighted()


def _settings() -> Iterator[Case]:
    yield Case(
        "tfbdl.set_kl_weight",
        tfbdl.set_kl_weight,
        _weighted,
        {
            "model": (Made(random_network), Made(lambda: random_network("point"))),
            "weight": (1.0, 0.5),
        },
    )
    yield Case(
        "tfbdl.set_num_samples",
        tfbdl.set_num_samples,
        _averaged,
        {
            "model": (Made(dropout_network), Made(lambda: dropout_network(0.3))),
            "num_samples": (1, 2),
        },
    )


def _vaes() -> Iterator[Case]:
    vae = {
        "latent_dim": (2, 3),
        "hidden_units": ((3,), (3, 2)),
        "likelihood": ("bernoulli", "continuous_bernoulli"),
        "binarize": (None, "dynamic"),
        "encoder": (None, Made(lambda: _own_network(4))),
        "decoder": (None, Made(lambda: _own_network(4))),
        "activation": ("relu", "tanh"),
        "seed": (1, 2),
    }
    yield Case("tfbdl.models.VAE", models.VAE, _vae, vae, slow=True)
    estimate = {"x": (PIXELS, PIXELS[::-1]), "num_samples": (2, 3), "seed": (0, 1)}
    for method in ("elbo", "log_likelihood"):
        yield Case(
            f"VAE.{method}",
            getattr(models.VAE, method),
            lambda method=method, **given: _of_vae(method, **given),
            estimate,
            slow=True,
        )
    yield Case(
        "VAE.log_prob",
        models.VAE.log_prob,
        lambda **given: shaped(kept_vae().log_prob(**given), N),
        {"x": (PIXELS, PIXELS[::-1]), "z": (X[:, :2], X[:, 2:])},
    )
    yield Case(
        "VAE.sample",
        models.VAE.sample,
        lambda **given: _of_vae("sample", **given),
        {"n": (3, 4), "mean": (False, True), "seed": (0, 1)},
    )
    yield Case(
        "VAE.evaluate",
        models.VAE.evaluate,
        lambda **given: kept_vae().evaluate(**given, verbose=0),
        {"x": (PIXELS, PIXELS**2), "sample_weight": (None, WEIGHTS)},
        slow=True,
    )
    yield Case(
        "VAE.fit",
        models.VAE.fit,
        _fitted,
        {
            "x": (PIXELS, PIXELS**2),
            "validation_data": (None, PIXELS),
            "sample_weight": (None, WEIGHTS),
        },
        slow=True,
    )


def _reweighted() -> Iterator[Case]:
    model = normalised()
    flat = FlatModel(model)
    members = np.linspace(-1.0, 1.0, 2 * flat.size, dtype="float32").reshape(2, -1)
    yield Case(
        "tfbdl.models.WeightEnsemble",
        models.WeightEnsemble,
        lambda **given: _ensemble(models.WeightEnsemble(**given)),
        {
            "model": (model, Made(lambda: normalised("relu"))),
            "members": (members, 2.0 * members),
            "states": (None, np.ones((2, 8), "float32")),
            "own_weights": (None, Wrong(["none such"])),
            "own_states": (None, Wrong([0.5])),
            "theta": (None, Wrong([1.0])),
        },
    )
    members_of = Made(lambda: tfbdl.to_batch_ensemble(classifier(), 2).network)
    yield Case(
        "tfbdl.models.BatchEnsemble",
        models.BatchEnsemble,
        lambda **given: _shared(models.BatchEnsemble(**given)),
        {"network": (members_of, Made(classifier)), "num_members": (2, Wrong(3))},
    )
    theta = {"model": (model, Made(lambda: normalised("relu"))), "mean": (members[0], members[1])}
    yield Case(
        "tfbdl.models.NormalWeights",
        models.NormalWeights,
        _drawn_weights,
        {
            **theta,
            "stddev": (np.ones(flat.size), np.zeros(flat.size)),
            "state": (None, np.full(8, 2.0, "float32")),
        },
    )
    several = Made(lambda: [normalised(), normalised()])
    yield Case(
        "WeightEnsemble.of",
        models.WeightEnsemble.of,
        _named_ensemble,
        {"models": (several, Made(lambda: [normalised()])), "name": ("one", "two")},
    )
    states = np.arange(16, dtype="float32").reshape(2, 8)
    ensemble = models.WeightEnsemble(model, members, states)
    for name in ("theta", "state"):
        method = getattr(models.WeightEnsemble, name)
        yield Case(f"WeightEnsemble.{name}", method, getattr(ensemble, name), {"k": (0, 1)})
