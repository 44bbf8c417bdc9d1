"""Several weights of one network: kept in training, drawn, or trained."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import keras

from soak.calls.case import LABELS, TARGETS, Case, Made, N, Wrong, X, answers, folder
from soak.calls.networks import classifier, line, network, normalised
from tfbdl import inference, optimizers


def _samples(**given: Any) -> Any:
    samples = inference.PosteriorSamples(**given)
    model = line()
    model.compile(optimizers.SGLD(0.01, num_data=N, seed=1), "mse", jit_compile=False)
    model.fit(X, TARGETS, 3, 4, callbacks=[samples], verbose=0)
    files = sorted(p.name for p in Path(given["savedir"] or "/nowhere").rglob("*"))
    return {"epochs": samples.epochs, "members": samples.ensemble().members, "files": files}


@cache
def kept_path(last: int = 3) -> inference.PosteriorSamples:
    """The path of a network with statistics."""
    samples = inference.PosteriorSamples()
    model = normalised()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(X, LABELS, 3, last, callbacks=[samples], verbose=0)
    return samples


def _swag(path: Any, **given: Any) -> Any:
    swag = inference.SWAG(path, **given)
    return {"mean": swag.mean, "deviations": swag.deviations, "draw": swag.sample(2)}


def _of_swag(method: str, **given: Any) -> Any:
    swag = inference.SWAG(kept_path(), rank=2)
    return answers(getattr(swag, method)(**given))


def _members(build: Any, **given: Any) -> Any:
    ensemble = inference.DeepEnsemble(build, **given).fit(X, LABELS, epochs=1, verbose=0)
    return answers(ensemble.ensemble())


def _deep_fit(**given: Any) -> Any:
    ensemble = inference.DeepEnsemble(classifier, 1).fit(**given, jit_compile=False)
    files = sorted(p.name for p in Path(given["savedir"] or "/nowhere").rglob("*"))
    return [answers(ensemble.ensemble()), files]


def _evidence(laplace: Any, **given: Any) -> Any:
    callback = inference.MarginalLikelihood(laplace, **given)
    network = laplace.network
    history = network.fit(X, LABELS, 3, 3, callbacks=[callback], verbose=0).history
    found = callback.log_marginal_likelihood
    return [history, laplace.prior_precision, list(found), list(found.values())]


def _trained_laplace() -> inference.Laplace:
    return inference.Laplace(classifier(), "classification", jit_compile=False)


def cases() -> Iterator[Case]:
    """Each method, and each of what it answers."""
    yield Case(
        "tfbdl.inference.PosteriorSamples",
        inference.PosteriorSamples,
        _samples,
        {"start": (0, 1), "every": (1, 2), "savedir": (None, Made(folder))},
        slow=True,
    )
    yield Case(
        "tfbdl.inference.SWAG",
        inference.SWAG,
        _swag,
        {
            "path": (Made(kept_path), Made(lambda: kept_path(4))),
            "rank": (3, 2),
            "scale": (0.5, 1.0),
        },
        slow=True,
    )
    draws = {"num_samples": (3, 2), "seed": (0, 1)}
    yield Case(
        "SWAG.sample",
        inference.SWAG.sample,
        lambda **given: _of_swag("sample", **given),
        draws,
    )
    yield Case(
        "SWAG.ensemble",
        inference.SWAG.ensemble,
        lambda **given: _of_swag("ensemble", **given),
        {**draws, "x": (X, X + 1.0), "batch_size": (4, 3)},
        slow=True,
    )
    yield Case(
        "tfbdl.inference.DeepEnsemble",
        inference.DeepEnsemble,
        _members,
        {
            "build": (classifier, lambda: network(keras.layers.Dense(3), loss="mse")),
            "num_members": (2, 1),
            "seed": (0, 1),
        },
        slow=True,
    )
    yield Case(
        "DeepEnsemble.fit",
        inference.DeepEnsemble.fit,
        _deep_fit,
        {
            "x": (X, X + 1.0),
            "y": (LABELS, (LABELS + 1) % 3),
            "savedir": (None, Made(folder)),
            "epochs": (2, 1),
            "batch_size": (3, 2),
            "verbose": (0, Wrong("loud")),
        },
        slow=True,
    )
    yield Case(
        "tfbdl.inference.MarginalLikelihood",
        inference.MarginalLikelihood,
        _evidence,
        {
            "laplace": (Made(_trained_laplace), Made(lambda: None)),
            "x": (X, X + 1.0),
            "y": (LABELS, (LABELS + 1) % 3),
            "prior_structure": ("layerwise", "scalar"),
            "start": (0, 1),
            "every": (1, 2),
        },
        slow=True,
    )
