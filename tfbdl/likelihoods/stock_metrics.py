"""Metrics of Keras' own that would compare y with outputs that are no predictions."""

from __future__ import annotations

from typing import Any

import keras

from tfbdl.keras_private import compiled_metrics, wrapped_function
from tfbdl.likelihoods.of_keras import of_loss


def check_metrics(model: keras.Model) -> None:
    """Raises ValueError where a metric of Keras' own meets outputs that are nothing like y.

    That is under a likelihood with `outputs_hold`, whose outputs Keras' metrics would average over
    all the same. Metrics of others may know what they are given.
    """
    likelihood = of_loss(getattr(model, "loss", None))
    if likelihood is None or likelihood.outputs_hold is None:
        return
    for metric in compiled_metrics(model):
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
