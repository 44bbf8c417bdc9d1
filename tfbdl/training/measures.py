"""What training steps measure beside the loss, the metrics and the layers' terms: columns of logs.

`tfbdl.train` and the callbacks that observe `fit` ask for it around each step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from tfbdl.threads import Function, replaced

ON_REQUEST = ("grad_norm",)
"""Columns that only logs have whose `columns` name them."""


def names(model: keras.Model, columns: Collection[str]) -> list[str]:
    """The names of what is measured of a model, for a log with these columns."""
    return [*weight_decay(model), *(name for name in ON_REQUEST if name in columns)]


@contextmanager
def measured(model: keras.Model, columns: Collection[str]) -> Iterator[dict[str, tf.Tensor]]:
    """Scalars by the names of their columns, whose means over an epoch are logged.

    They are of the step that runs inside the context, and complete when it ends: wd is that of the
    weights before they move.
    """
    values = weight_decay(model)
    if "grad_norm" not in columns:
        yield values
        return
    norms: list[tf.Tensor] = []
    with replaced(model.optimizer, "apply", _listening(model.optimizer, norms)):
        yield values
    values["grad_norm"] = tf.add_n(norms) / len(norms)


def weight_decay(model: keras.Model) -> dict[str, tf.Tensor]:
    """The sum of Keras' own regularisers, as the slides' logs call it; nothing if there is none."""
    regularized = [v for v in model.trainable_variables if v.regularizer is not None]
    return {"wd": sum(v.regularizer(v) for v in regularized)} if regularized else {}


def _listening(optimizer: Any, norms: list[tf.Tensor]) -> Callable[[Function], Function]:
    """Makes of an optimizer's `apply` one that also notes the norm of the gradients of the loss."""

    def make(own: Function) -> Function:
        def apply(grads: Sequence[Any], trainable_variables: Any = None) -> Any:
            scale = getattr(optimizer, "dynamic_scale", 1.0)  # the scale of the loss in float16
            norm = tf.linalg.global_norm([g for g in grads if g is not None])
            norms.append(tf.cast(norm, tf.float32) / scale)
            return own(grads, trainable_variables)

        return apply

    return make
