"""Losses, likelihoods and targets of networks with several outputs, in the outputs' structure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfbdl.likelihoods.base import Likelihood
from tfbdl.likelihoods.joint import Joint, kind_of, named, names_of
from tfbdl.likelihoods.of_keras import check_loss_targets


def is_structure(losses: Any) -> bool:
    """Whether it is a dictionary, list or tuple of losses, and not the config of one."""
    is_config = isinstance(losses, dict) and "class_name" in losses
    return isinstance(losses, (dict, list, tuple)) and not is_config


def map_losses(function: Callable[[Any], Any], losses: Any) -> Any:
    """`function` of each loss in a structure of them; a config is one loss, and None stays."""
    if isinstance(losses, dict) and is_structure(losses):
        return {key: map_losses(function, part) for key, part in losses.items()}
    if is_structure(losses):
        return [map_losses(function, part) for part in losses]
    return None if losses is None else function(losses)


def of_each_output(model: keras.Model, given: Any, weights: Any) -> Likelihood | None:
    """The likelihoods given, in the structure of the model's outputs, and their weights.

    One likelihood alone is that of each output, and one weight that of each likelihood, as Keras
    takes a loss. A network of one output has the likelihood of it, which is no `Joint`.
    """
    outputs = getattr(model, "output", None)
    if isinstance(outputs, (list, tuple)) and len(outputs) == 1:
        outputs = outputs[0]  # the model itself gives it without the list
    if isinstance(given, Joint):
        given, weights = given.likelihoods, given.weights
    if given is None or not (is_structure(given) or keras.tree.is_nested(outputs)):
        return given
    if outputs is None:
        return Joint(given, weights)

    def arrange(name: str, parts: Any, missing: Any) -> Any:
        if not is_structure(parts):
            parts = keras.tree.map_structure(lambda _: parts, outputs)
        return arranged(name, parts, outputs, getattr(model, "output_names", None), missing)

    likelihoods = arrange("likelihood", given, None)
    if not keras.tree.is_nested(outputs):
        return likelihoods
    return Joint(likelihoods, None if weights is None else arrange("loss_weights", weights, 1.0))


def arranged(name: str, given: Any, outputs: Any, names: Any, missing: Any) -> Any:
    """What is given by key, by the name of an output or by place, in the structure of outputs."""
    if isinstance(given, dict) and isinstance(outputs, dict):
        known, by_name = list(outputs), given
    elif isinstance(given, dict):
        known, by_name = list(names or ()), given
    else:
        flat = keras.tree.flatten(given)
        if len(flat) != len(keras.tree.flatten(outputs)):
            raise ValueError(
                f"{name} has {len(flat)} parts for {len(keras.tree.flatten(outputs))} outputs; "
                "give one for each"
            )
        return keras.tree.pack_sequence_as(outputs, flat)
    unknown = [key for key in by_name if key not in known]
    if unknown:
        raise ValueError(f"{name} has the key {unknown[0]!r}; the outputs are {known}")
    if isinstance(outputs, dict):
        return {
            key: by_name.get(key, keras.tree.map_structure(lambda _: missing, part))
            for key, part in outputs.items()
        }
    return keras.tree.pack_sequence_as(outputs, [by_name.get(key, missing) for key in known])


def check_targets(model: keras.Model, y: Any, outputs: Any) -> None:
    """Raises ValueError where a model's loss meets targets that have no probability under it.

    Args:
        model: a compiled model.
        y: all targets, an array or a structure of arrays.
        outputs: the outputs of the network for any one example or more.
    """
    loss = model.loss
    if not is_structure(loss):
        if tf.is_tensor(outputs) and not keras.tree.is_nested(y):
            check_loss_targets(loss, y, outputs)
        return
    losses = arranged("loss", loss, outputs, getattr(model, "output_names", None), None)
    try:
        keras.tree.assert_same_structure(outputs, y)
    except (ValueError, TypeError):
        raise ValueError(
            f"y is {kind_of(y)}, and the outputs of model={model.name} are {kind_of(outputs)}; "
            "give targets for each output, in the same structure"
        ) from None
    flat = (keras.tree.flatten(part) for part in (losses, y, outputs))
    for name, of_output, own, output in zip(names_of(outputs), *flat, strict=True):
        if of_output is not None:
            named(name, check_loss_targets, of_output, own, output)
