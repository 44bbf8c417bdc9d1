"""Uses of private names of Keras that say how a model is compiled and trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras.src.losses.loss import reduce_weighted_values


def compiled_with(model: keras.Model) -> dict[str, Any]:
    """The arguments of `model.compile`, as they were given."""
    return dict(model._compile_config.config)


def reduced(loss: keras.losses.Loss, values: tf.Tensor, sample_weight: Any) -> tf.Tensor:
    """What a loss makes of its values, shape (B,), and the weights of examples, or None."""
    return reduce_weighted_values(
        values, sample_weight=sample_weight, reduction=loss.reduction, dtype=loss.dtype
    )


def inner_optimizer(optimizer: Any) -> Any:
    """The optimizer that one which scales the loss is around, or the optimizer itself."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def excludes_from_decay(optimizer: keras.optimizers.Optimizer) -> bool:
    """Whether some weights are excluded from its decay."""
    names = ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern")
    return any(getattr(optimizer, name, None) for name in names)


def schedule_of(optimizer: keras.optimizers.Optimizer) -> Any:
    """The learning rate as it was given: a schedule, or a variable."""
    return inner_optimizer(optimizer)._learning_rate


def batches_seen(optimizer: keras.optimizers.Optimizer) -> tf.Tensor:
    """The number of batches seen; `iterations` are fewer where gradients accumulate."""
    return tf.convert_to_tensor(inner_optimizer(optimizer)._iterations)


def compiled_metrics(model: keras.Model) -> list[Any]:
    """The metrics that `compile` was given, as they were: objects, names, functions."""
    compiled = getattr(model, "_compile_metrics", None)
    if compiled is None:
        return []
    given = keras.tree.flatten([compiled._user_metrics, compiled._user_weighted_metrics])
    return [metric for metric in given if metric is not None]


def wrapped_function(metric: Any) -> Callable[..., Any] | None:
    """The function whose mean a `MeanMetricWrapper` takes; None of other metrics."""
    is_wrapper = type(metric) is keras.metrics.MeanMetricWrapper
    return metric._fn if is_wrapper else None
