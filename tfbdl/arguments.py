"""Checks of what a user passes; each refusal is one line: the argument, its value, what to do."""

from __future__ import annotations

import numbers
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf

T = TypeVar("T")


def integer(name: str, value: Any) -> int:
    """`value`, if it is an integer (of Python or NumPy, and no bool).

    Raises:
        ValueError: if it is not.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ValueError(f"{name}={value!r} must be an integer")
    return int(value)


def seed(name: str, value: Any) -> int:
    """`value`, if it is an integer of 64 bits, with or without a sign.

    Raises:
        ValueError: if it is not.
    """
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or not -(2**63) <= value < 2**64:
        raise ValueError(f"{name}={value!r} must be an integer of 64 bits")
    return int(value)


def generator(name: str, value: Any) -> np.random.Generator:
    """NumPy's generator of the `seed` that is given.

    Raises:
        ValueError: if it is none.
    """
    return np.random.default_rng(seed(name, value) % 2**64)


def positive_integer(name: str, value: Any, meaning: str = "") -> int:
    """`value`, if it is an integer greater than 0; `meaning` ends the message.

    Raises:
        ValueError: if it is not.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value <= 0:
        raise ValueError(f"{name}={value!r} must be a positive integer{meaning}")
    return int(value)


def number(name: str, value: Any, holds: Callable[[float], bool], requirement: str) -> float:
    """`value`, if it is a real number of which `holds` is true, as `requirement` says in words.

    Raises:
        ValueError: if it is not.
    """
    if isinstance(value, bool) or not (isinstance(value, numbers.Real) and holds(float(value))):
        raise ValueError(f"{name}={value!r} must be {requirement}")
    return float(value)


def option(name: str, value: Any, known: Iterable[str]) -> str:
    """`value`, if it is one of the `known` words.

    Raises:
        ValueError: if it is not; the message lists them.
    """
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name}={value!r} is unknown; choose one of: {', '.join(sorted(known))}")
    return value


def choose(
    name: str, identifier: Any, kind: type[T], known: Mapping[str, type[T]], also: str = ""
) -> T:
    """The object a user means: a `kind` itself, its config, or one of the `known` names.

    Raises:
        ValueError: if it is none of these; the message lists the known ones, after `also`.
    """
    if isinstance(identifier, kind):
        return identifier
    if isinstance(identifier, dict):
        return keras.saving.deserialize_keras_object(identifier)
    if not isinstance(identifier, str) or identifier not in known:
        names = ", ".join(sorted(known))
        raise ValueError(f"{name}={identifier!r} is unknown; choose {also}one of: {names}")
    return known[identifier]()


def keras_model(name: str, value: Any) -> keras.Model:
    """`value`, if it is a Keras model.

    Raises:
        ValueError: if it is not.
    """
    if not isinstance(value, keras.Model):
        raise ValueError(
            f"{name}={value!r} is no keras.Model; give one, a saved one by keras.models.load_model"
        )
    return value


def output_on(model: keras.Model, x: Any) -> Any:
    """The model's output in inference mode; builds a model that has no weights yet.

    Raises:
        ValueError: if the model does not take inputs of this shape.
    """
    try:
        with model.distribute_strategy.scope():
            return model(x, training=False)
    except (ValueError, tf.errors.InvalidArgumentError) as error:
        emphasised = re.search(r"\x1b\[1m(.*?)\x1b\[0m", str(error), re.DOTALL)
        reason = (emphasised.group(1) if emphasised else str(error)).strip().splitlines()[0]
        reason = re.sub(r"\{\{.*?\}\} |\[Op:.*", "", reason).strip()
        if _is_one_example(model, x):
            raise ValueError(
                f"x has no axis of examples, where model={model.name} takes batches; "
                "give data_set.batch(100), or x[None] for one example"
            ) from None
        shapes = ", ".join(str(tuple(leaf.shape[1:])) for leaf in keras.tree.flatten(x))
        raise ValueError(
            f"x has examples of shape {shapes}, which model={model.name} does not take: {reason}"
        ) from None


def only_input_shape(model: keras.Model) -> tuple[int | None, ...] | None:
    """What a subclassed model was built for, the axis of examples first; None of several inputs."""
    shape = (model.get_build_config() or {}).get("input_shape")
    if isinstance(shape, (list, tuple)) and all(n is None or isinstance(n, int) for n in shape):
        return tuple(shape)
    return None


def _is_one_example(model: keras.Model, x: Any) -> bool:
    """Whether x lacks an axis, as an element of a data set does that is not in batches."""
    if getattr(model, "inputs", None):
        shapes = [tensor.shape for tensor in model.inputs]
    else:
        shapes = [only_input_shape(model)]
    leaves = keras.tree.flatten(x)
    return len(leaves) == len(shapes) and all(
        shape is not None and len(leaf.shape) == len(shape) - 1
        for leaf, shape in zip(leaves, shapes, strict=True)
    )
