"""Metrics of Keras' own that would compare y with outputs that are no predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from tfbdl.keras_private_training import compiled_metrics, compiled_with, wrapped_function
from tfbdl.likelihoods.base import Likelihood
from tfbdl.likelihoods.joint import Joint
from tfbdl.likelihoods.of_keras import of_loss
from tfbdl.likelihoods.of_outputs import is_structure, map_losses, of_each_output


def check_metrics(model: keras.Model) -> None:
    """Raises ValueError where a metric of Keras' own meets outputs that are nothing like y.

    Such are the outputs under a likelihood with `outputs_hold`; Keras' metrics would average over
    them all the same. Metrics that are not Keras' may know what they are given.
    """
    loss = getattr(model, "loss", None)
    known = map_losses(of_loss, loss) if is_structure(loss) else of_loss(loss)
    likelihoods = of_each_output(model, known, None)
    if not isinstance(likelihoods, Joint):
        _check(model, likelihoods, compiled_metrics(model))
        return
    pairs = zip(_names(model, likelihoods), likelihoods.parts, strict=True)
    for place, (name, part) in enumerate(pairs):
        _check(model, part, _metrics_of(model, name, place))


def _names(model: keras.Model, likelihoods: Joint) -> list[str]:
    """The outputs as `compile` names them: their keys, else the names that Keras gives."""
    if isinstance(likelihoods.likelihoods, dict):
        return likelihoods.names
    return list(getattr(model, "output_names", None) or likelihoods.names)


def _metrics_of(model: keras.Model, name: str, place: int) -> list[Any]:
    """The metrics of one of several outputs; those given for no one output are for each."""
    of_output: list[Any] = []
    for key in ("metrics", "weighted_metrics"):
        given = compiled_with(model).get(key)
        if isinstance(given, dict):
            given = given.get(name)
        elif isinstance(given, (list, tuple)) and any(isinstance(m, (list, tuple)) for m in given):
            given = given[place]
        of_output += [metric for metric in keras.tree.flatten(given) if metric is not None]
    return of_output


def _check(model: keras.Model, likelihood: Likelihood | None, metrics: Sequence[Any]) -> None:
    if likelihood is None or likelihood.outputs_hold is None:
        return
    for metric in metrics:
        if _is_keras_own(metric):
            name = metric if isinstance(metric, str) else getattr(metric, "name", metric)
            raise ValueError(
                f"metrics={name!r} would compare y with all outputs of model={model.name}, which "
                f"hold {likelihood.outputs_hold}; give tfbdl.metrics.OfMean(metric, likelihood), "
                "with a metric such as keras.metrics.RootMeanSquaredError()"
            )


def _is_keras_own(metric: Any) -> bool:
    """Whether a metric, as `compile` takes it, does what Keras says it does."""
    if isinstance(metric, str):
        return True
    computed_by = wrapped_function(metric) or metric
    if not hasattr(computed_by, "__name__"):
        computed_by = type(computed_by)
    return computed_by.__module__.split(".")[0] == "keras"
