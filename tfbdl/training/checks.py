"""Refusals of the training loop, each one line that says what to do."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl import arguments, kl_term, likelihoods, random
from tfbdl.arguments import optional, positive_integer, shown, verbosity
from tfbdl.checked_arrays import checked_arrays
from tfbdl.keras_private import takes_training, walk
from tfbdl.keras_private_training import inner_optimizer
from tfbdl.model_arguments import keras_model
from tfbdl.sources import ENDLESS, NO_INPUTS, NO_TARGETS, kind_of, length_of

_TRAIN_STEP = keras.Model.train_step


def check(
    model: keras.Model,
    *,
    epochs: int,
    batch_size: int | None,
    seed: int,
    columns: Any,
    callbacks: Any,
    jit_compile: Any,
    verbose: Any,
) -> None:
    """Raises ValueError unless this model can be trained as asked."""
    keras_model("model", model)
    if not model.compiled:
        raise ValueError(f"model={model.name} is not compiled; call model.compile(optimizer, loss)")
    positive_integer("epochs", epochs)
    optional(positive_integer, "batch_size", batch_size)
    arguments.seed("seed", seed)
    optional(check_columns, "columns", columns)
    check_callbacks(callbacks)
    optional(arguments.boolean, "jit_compile", jit_compile)
    verbosity("verbose", verbose)
    check_told_of_training(model)
    likelihoods.check_metrics(model)
    if kl_term.loss_terms(model):
        likelihoods.check_is_mean(model, "KL / N")
    if hasattr(inner_optimizer(model.optimizer), "num_data"):
        likelihoods.check_is_mean(model, "the prior of the optimizer")


def check_callbacks(callbacks: Any) -> None:
    """Raises ValueError unless they are a list of callbacks of Keras."""
    is_list = isinstance(callbacks, (list, tuple))
    if not is_list or not all(isinstance(c, keras.callbacks.Callback) for c in callbacks):
        raise ValueError(f"callbacks={shown(callbacks)} must be a list of keras.callbacks.Callback")


def check_columns(name: str, columns: Any) -> list[str]:
    """The columns of a log, if they are a list of different names, at least one.

    Raises:
        ValueError: if they are not.
    """
    names = arguments.words(name, columns, "a list of names")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"{name}={shown(columns)} must be different names, at least one")
    return names


def check_function(y: Any, sample_weight: Any, num_data: int | None) -> int:
    """N of a function x; ValueError unless it is given, and no y and no weights."""
    if y is not None:
        raise ValueError("y is given, but x is a function; let it give examples (x, y)")
    if sample_weight is not None:
        raise ValueError(
            "sample_weight is given, but x is a function; let it give examples (x, y, weight)"
        )
    return positive_integer("num_data", num_data, ": the examples that x gives in an epoch")


def check_data(x: Any, num_data: int | None) -> None:
    """Raises ValueError if there are no data, or those that have a length beside one."""
    if x is None:
        raise ValueError(NO_INPUTS)
    if num_data is not None and not callable(x):
        raise ValueError(
            f"num_data={shown(num_data)} is for a function x; arrays have a length, and the "
            "batches of data sets are counted by steps_per_epoch"
        )


def check_batches(x: Any, batch_size: int | None, steps_per_epoch: int | None) -> None:
    """Raises ValueError unless batches have their own size, and an end or `steps_per_epoch`."""
    if batch_size is not None:
        raise ValueError(
            f"batch_size={batch_size} is for arrays, but x is {kind_of(x)}, which has its own"
        )
    optional(positive_integer, "steps_per_epoch", steps_per_epoch)
    if steps_per_epoch is None and length_of(x) == ENDLESS:
        raise ValueError(f"x is {kind_of(x)} without an end; give steps_per_epoch")


def check_weighs_inputs(model: keras.Model) -> None:
    """Raises ValueError for weights without targets, unless the model's own loss weighs inputs."""
    if not getattr(model, "weighs_inputs", False):
        raise ValueError("sample_weight is given without y, whose likelihood it weighs; give y")


def check_told_of_training(model: keras.Model) -> None:
    """Raises ValueError where the random layers of a subclassed model would not sample.

    Keras tells a model that it trains only if its `call` takes `training`, and nothing else tells
    the layers in it.
    """
    is_random = any(isinstance(layer, random.Seed) for layer in walk(model))
    if is_random and not takes_training(model):
        raise ValueError(
            f"model={model.name} never tells its layers that it trains: let "
            f"{type(model).__name__}.call take `training`, as in call(self, x, training=False)"
        )


def check_examples(model: keras.Model, x: Any, y: Any = None) -> None:
    """Raises ValueError unless x, y are arrays of N examples such as the model is made for."""
    checked_arrays(x, y, tf.as_dtype(keras.config.floatx()))
    if hasattr(model, "check_data"):
        model.check_data(x)


def check_has_targets(model: keras.Model, data: tuple[Any, ...]) -> None:
    """Raises ValueError where there are inputs alone, and a loss that needs targets."""
    kind = type(model)
    own = kind.compute_loss is not keras.Model.compute_loss or kind.train_step is not _TRAIN_STEP
    if len(data) == 1 and model.loss is not None and not own:
        raise ValueError(NO_TARGETS)


def check_batch_size(strategy: tf.distribute.Strategy, batch_size: int, num_data: int) -> int:
    """`batch_size`, or N if that is less.

    Raises:
        ValueError: unless the replicas can share it.
    """
    batch_size = min(batch_size, num_data)
    replicas = strategy.num_replicas_in_sync
    if batch_size % replicas:
        raise ValueError(f"batch_size={batch_size} must be a multiple of the {replicas} replicas")
    return batch_size
