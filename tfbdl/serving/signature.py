"""The inputs that an exported model takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.model_arguments import only_input_shape


def input_specs(model: keras.Model) -> list[tf.TensorSpec]:
    """The signature's inputs: batches of any size."""
    inputs = getattr(model, "inputs", None) or ()
    if len(inputs) > 1:
        return [tf.TensorSpec((None, *i.shape[1:]), i.dtype, name=i.name) for i in inputs]
    if inputs:
        return [tf.TensorSpec((None, *inputs[0].shape[1:]), inputs[0].dtype, name="x")]
    shape = only_input_shape(model)
    if shape is None:
        raise ValueError(
            f"model={model.name} has no single input; make it a functional keras.Model"
        )
    return [tf.TensorSpec((None, *shape[1:]), keras.config.floatx(), name="x")]


def as_called(model: keras.Model, inputs: Sequence[tf.Tensor]) -> Any:
    """The inputs in the structure of the model's inputs."""
    if isinstance(model, keras.Sequential) or not getattr(model, "inputs", None):
        return inputs[0]
    return keras.tree.pack_sequence_as(model.input, list(inputs))


def examples(specs: Sequence[tf.TensorSpec]) -> list[tf.Tensor] | None:
    """Examples that a model will take, unlike each other; None where a length is open."""
    if any(None in spec.shape[1:] for spec in specs):
        return None
    return [_filled(spec) for spec in specs]


def _filled(spec: tf.TensorSpec) -> tf.Tensor:
    """As many examples as let no logits pass for probabilities by chance."""
    number = 8
    values: Any = ["1" if spec.dtype == tf.string else 1] * number
    if spec.dtype.is_floating:
        values = np.linspace(1.0 / number, 1.0, number)  # indices too, as 0 and 1
    column = tf.reshape(
        tf.cast(tf.constant(values), spec.dtype), [number, *[1] * (len(spec.shape) - 1)]
    )
    return tf.broadcast_to(column, [number, *spec.shape[1:]])
