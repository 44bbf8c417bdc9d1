"""Posteriors from the path of training, or from several trainings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import keras

import tfbdl
from soak.calls.answers import DRAWS, answered, drawn
from soak.calls.case import LABELS, TARGETS, WEIGHTS, Case, Made, N, Wrong, X, folder
from soak.calls.networks import classifier, network, normalised
from tfbdl import inference, likelihoods, optimizers


def _snapshots(**given: Any) -> Any:
    kept = inference.WeightSnapshots(**given)
    sampling().fit(X, TARGETS, 3, 4, callbacks=[kept], verbose=0)
    files = sorted(p.name for p in Path(given["savedir"] or "/nowhere").rglob("*"))
    return {"epochs": kept.epochs, "members": kept.ensemble().members, "files": files}


def sampling(rate: float = 0.01) -> keras.Model:
    """A network whose optimizer samples."""
    return network(keras.layers.Dense(1), optimizer=_sampler(rate), loss=likelihoods.Normal())


def _sampler(rate: float) -> keras.optimizers.Optimizer:
    return optimizers.SGLD(rate, num_data=N, seed=1)


def variational(rate: float = 0.1) -> keras.Model:
    """A network whose optimizer keeps a distribution."""
    ivon = optimizers.IVON(rate, num_data=N, seed=1)
    return network(keras.layers.Dense(1), optimizer=ivon, loss=likelihoods.Normal())


def descending(rate: float = 0.1) -> keras.Model:
    """A classifier that is trained by gradient descent."""
    model = classifier()
    model.compile(keras.optimizers.SGD(rate), model.loss, jit_compile=False)
    return model


TRAINED = {"epochs": 5, "batch_size": 3, "verbose": 0}


def _swag(**given: Any) -> Any:
    swag = inference.SWAG(**given).fit(X, LABELS, **TRAINED)
    return [swag.mean, swag.deviations, swag.sample(2), swag.name]


@cache
def kept_swag() -> inference.SWAG:
    """The SWAG of a network with statistics."""
    model = normalised()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return inference.SWAG(model, rank=2, jit_compile=False).fit(X, LABELS, **TRAINED)


def _sgmcmc(**given: Any) -> Any:
    fitted = inference.SGMCMC(**given).fit(X, TARGETS, **TRAINED)
    return [fitted.sample(), fitted.name]


@cache
def kept_sgmcmc() -> inference.SGMCMC:
    """A few snapshots."""
    return inference.SGMCMC(sampling(), jit_compile=False).fit(X, TARGETS, **TRAINED)


def _variational(**given: Any) -> Any:
    fitted = inference.MeanFieldVI(**given).fit(X, TARGETS, **TRAINED)
    return [fitted.sample(2), fitted.name]


@cache
def kept_variational() -> inference.MeanFieldVI:
    """The variational posterior of a line."""
    fitted = inference.MeanFieldVI(variational(), jit_compile=False)
    return fitted.fit(X, TARGETS, **TRAINED)


def _of(**given: Any) -> Any:
    tfbdl.train(given["model"], X, TARGETS, **TRAINED)
    return inference.MeanFieldVI.of(**given).sample(2)


def _members(**given: Any) -> Any:
    fitted = inference.DeepEnsemble(**given).fit(X, LABELS, epochs=1, verbose=0)
    return [answered(fitted.ensemble()), fitted.name]


def _side_by_side(**given: Any) -> Any:
    fitted = inference.DeepEnsemble(classifier, 2, jit_compile=False).fit_together(**given)
    return answered(fitted.ensemble())


@cache
def kept_members() -> inference.DeepEnsemble:
    """Two members."""
    actual = inference.DeepEnsemble(classifier, 2, jit_compile=False)
    return actual.fit(X, LABELS, epochs=1, verbose=0)


def _swag_of(seed: int = 0) -> inference.SWAG:
    return inference.SWAG(descending(), rank=2, seed=seed, jit_compile=False)


def _mixture(**given: Any) -> Any:
    fitted = inference.Mixture(**given).fit(X, LABELS, **TRAINED)
    return [fitted.sample(2), fitted.name]


@cache
def kept_mixture() -> inference.Mixture:
    """The mixture of two paths."""
    return inference.Mixture([_swag_of(), _swag_of(1)]).fit(X, LABELS, **TRAINED)


def _trained(make: Any, **given: Any) -> Any:
    posterior = make().fit(**given)
    files = sorted(p.name for p in Path(given["savedir"] or "/nowhere").rglob("*"))
    return [posterior.sample(), files]


SEED_AND_NAME: dict[str, tuple[Any, Any]] = {
    "seed": (0, 1),
    "jit_compile": (False, Wrong("yes")),
    "name": ("one", "two"),
}


def cases() -> Iterator[Case]:
    """Snapshots, SWAG, SG-MCMC and ensembles."""
    yield from _along_a_path()
    yield from _ensembles()
    yield from _trainings()


def _along_a_path() -> Iterator[Case]:
    yield Case(
        "tfbdl.inference.WeightSnapshots",
        inference.WeightSnapshots,
        _snapshots,
        {"start": (0, 1), "every": (1, 2), "savedir": (None, Made(folder))},
        slow=True,
    )
    along = {"start": (0, 1), "every": (1, 2), **SEED_AND_NAME}
    yield Case(
        "tfbdl.inference.SWAG",
        inference.SWAG,
        _swag,
        {
            "model": (Made(descending), Made(lambda: descending(0.2))),
            "rank": (3, 2),
            "scale": (0.5, 1.0),
            **along,
        },
        slow=True,
    )
    yield from drawn(inference.SWAG, kept_swag, DRAWS, "sample")
    arguments = {**DRAWS, "x": (X, X + 1.0), "batch_size": (4, 3)}
    yield from drawn(inference.SWAG, kept_swag, arguments, "ensemble")
    yield Case(
        "tfbdl.inference.SGMCMC",
        inference.SGMCMC,
        _sgmcmc,
        {"model": (Made(sampling), Made(lambda: sampling(0.02))), **along},
        slow=True,
    )
    yield from drawn(inference.SGMCMC, kept_sgmcmc, DRAWS, "sample", "ensemble")
    models = Made(variational), Made(lambda: variational(0.2))
    yield Case(
        "tfbdl.inference.MeanFieldVI",
        inference.MeanFieldVI,
        _variational,
        {"model": models, **SEED_AND_NAME},
        slow=True,
    )
    of = inference.MeanFieldVI.of
    yield Case("MeanFieldVI.of", of, _of, {"model": models}, slow=True)
    yield from drawn(inference.MeanFieldVI, kept_variational, DRAWS, "sample", "ensemble")


def _ensembles() -> Iterator[Case]:
    yield Case(
        "tfbdl.inference.DeepEnsemble",
        inference.DeepEnsemble,
        _members,
        {
            "build_model": (
                Made(lambda: classifier),
                Made(lambda: lambda: network(keras.layers.Dense(3), loss=classifier().loss)),
            ),
            "num_members": (2, 1),
            "in_memory": (True, Wrong("no")),
            **SEED_AND_NAME,
        },
        slow=True,
    )
    yield Case(
        "tfbdl.inference.Mixture",
        inference.Mixture,
        _mixture,
        {
            "methods": (
                Made(lambda: [_swag_of(), _swag_of(1)]),
                Made(lambda: [_swag_of(2)]),
            ),
            "name": ("one", "two"),
        },
        slow=True,
    )
    yield from drawn(inference.Mixture, kept_mixture, DRAWS, "sample", "ensemble")
    first = {"num_samples": (2, 1), "seed": (0, Wrong("abc"))}
    yield from drawn(inference.DeepEnsemble, kept_members, first, "sample", "ensemble")


def _trainings() -> Iterator[Case]:
    methods = {
        "DeepEnsemble": lambda: inference.DeepEnsemble(classifier, 1, jit_compile=False),
        "SWAG": lambda: inference.SWAG(descending(), jit_compile=False),
    }
    for kind, make in methods.items():
        yield Case(
            f"{kind}.fit",
            getattr(inference, kind).fit,
            lambda make=make, **given: _trained(make, **given),
            {
                "x": (X, X + 1.0),
                "y": (LABELS, (LABELS + 1) % 3),
                "epochs": (4, 3),
                "num_data": (None, Wrong(3)),
                "batch_size": (3, 2),
                "sample_weight": (None, WEIGHTS),
                "class_weight": (None, {0: 2.0}),
                "validation_split": (0.0, 0.5),
                "validation_data": (None, Wrong((X, LABELS[:2]))),
                "validation_steps": (None, Wrong(2)),
                "steps_per_epoch": (None, Wrong(2)),
                "savedir": (None, Made(folder)),
                "columns": (None, Wrong(["speed"])),
                "callbacks": ((), Wrong("many")),
                "changed": ((), Wrong("weather")),
                "verbose": (0, Wrong("loud")),
            },
            slow=True,
        )
    yield Case(
        "DeepEnsemble.fit_together",
        inference.DeepEnsemble.fit_together,
        _side_by_side,
        {
            "x": (X, X + 1.0),
            "y": (LABELS, (LABELS + 1) % 3),
            "epochs": (4, 3),
            "batch_size": (3, 2),
        },
        slow=True,
    )
