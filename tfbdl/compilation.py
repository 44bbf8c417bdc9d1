"""Copies of models, compiled as the model that they copy."""

from __future__ import annotations

import warnings
from typing import Any

import keras

from tfbdl.arguments import first_line
from tfbdl.keras_private_training import compiled_with, inner_optimizer


def compile_like(model: keras.Model, copy: keras.Model) -> None:
    """Compiles `copy` with what `model` was compiled with, if it was.

    The loss is the same; optimizer and metrics, which have a state, are made anew from their
    configs. A warning names what cannot be, and leaves the copy as it is.
    """
    if not model.compiled:
        return
    given = compiled_with(model)
    again = []
    for part in (inner_optimizer(model.optimizer), given["metrics"], given["weighted_metrics"]):
        try:
            again.append(keras.tree.map_structure(_again, part, none_is_leaf=True))
        except Exception as error:  # a config of any class may raise anything
            warnings.warn(
                f"model={copy.name} is not compiled: part of what model={model.name} was compiled "
                f"with cannot be made again from its config ({first_line(error)})",
                stacklevel=4,
            )
            return
    optimizer, metrics, weighted_metrics = again
    parts = {"optimizer": optimizer, "metrics": metrics, "weighted_metrics": weighted_metrics}
    copy.compile(**{**given, **parts})


def _again(part: Any) -> Any:
    """A new optimizer or metric like this one; names and functions themselves."""
    if not isinstance(part, (keras.optimizers.Optimizer, keras.metrics.Metric)):
        return part
    return type(part).from_config(part.get_config())
