"""Models that a user passes, and whether they take the user's inputs."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import first_line, shown


def keras_model(name: str, value: Any) -> keras.Model:
    """`value`, if it is a Keras model.

    Raises:
        ValueError: if it is not.
    """
    if not isinstance(value, keras.Model):
        raise ValueError(
            f"{name}={shown(value)} is no keras.Model; give one, a saved one by "
            "keras.models.load_model"
        )
    return value


def one_output(name: str, model: keras.Model) -> None:
    """Raises ValueError if a model is known to have several outputs."""
    outputs = getattr(model, "outputs", None) or []
    if len(outputs) > 1:
        raise ValueError(
            f"{name}={model.name} has {len(outputs)} outputs; give "
            "keras.Model(model.input, ...) of the one that is meant"
        )


def output_on(model: keras.Model, x: Any) -> Any:
    """The model's output in inference mode; builds a model that has no weights yet.

    Raises:
        ValueError: if the model does not take such inputs.
    """
    try:
        with model.distribute_strategy.scope():
            return model(x, training=False)
    except (ValueError, tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
        reason, name = first_line(error), getattr(model, "network", model).name
        if _is_one_example(model, x):
            raise ValueError(
                f"x has no axis of examples, where model={name} takes batches; "
                "give data_set.batch(100), or x[None] for one example"
            ) from None
        leaves = keras.tree.flatten(x)
        shapes = ", ".join(str(tuple(leaf.shape[1:])) for leaf in leaves)
        text = " of text" if any(leaf.dtype == tf.string for leaf in leaves) else ""
        raise ValueError(
            f"x has examples{text} of shape {shapes}, which model={name} does not take: {reason}"
        ) from None


def symbolic_inputs(model: keras.Model) -> Any:
    """The symbolic inputs, in their structure.

    Raises:
        AttributeError: if a subclassed model has none.
    """
    return model.inputs[0] if isinstance(model, keras.Sequential) else model.input


def only_input_shape(model: keras.Model) -> tuple[int | None, ...] | None:
    """The input shape that a subclassed model was built for, examples first; else None."""
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
