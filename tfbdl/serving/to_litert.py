"""Graphs as files of LiteRT, formerly TensorFlow Lite."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from tfbdl.keras_private import walk


def to_litert(serve: Callable[..., Any], specs: Sequence[tf.TensorSpec], name: str) -> bytes:
    """The file of a function of tensors, with a signature of its own names.

    Args:
        serve: a dictionary of tensors for inputs.
        specs: the inputs.
        name: the name of the model, for messages.

    Raises:
        ValueError: if LiteRT has not all of its operations.
    """
    module = tf.Module()
    module.serve = tf.function(serve, autograph=False, input_signature=specs)
    with tempfile.TemporaryDirectory() as folder:
        signature = module.serve.get_concrete_function()
        tf.saved_model.save(module, folder, signatures=signature)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        try:
            return converter.convert()
        except Exception as error:  # its type is private
            operations = _named_by(str(error))
            which = ", ".join(operations) or str(error).splitlines()[0]
            instead = "inputs of fixed lengths, " if "TensorListReserve" in operations else ""
            raise ValueError(
                f"model={name} has operations that LiteRT has not: {which}; use {instead}"
                "format='onnx' or 'tf_saved_model'"
            ) from None


def _named_by(message: str) -> list[str]:
    """The operations that a message of the converter names, or those it was at."""
    named = re.findall(r"\btf\.([A-Z]\w+)", message) or re.findall(r'fused\["(\w+):"', message)
    return sorted({name for name in named if not name.endswith("PartitionedCall")})


@contextmanager
def unrolled(model: keras.Model, specs: Sequence[tf.TensorSpec]) -> Iterator[None]:
    """Recurrent layers are laid out step by step inside the context, if lengths are known.

    Their loops keep lists of tensors, which LiteRT has not for batches of any size.
    """
    known = all(spec.shape[1:].is_fully_defined() for spec in specs)
    layers = [layer for layer in walk(model) if known and isinstance(layer, keras.layers.RNN)]
    before = [layer.unroll for layer in layers]
    for layer in layers:
        layer.unroll = True
    try:
        yield
    finally:
        for layer, unroll in zip(layers, before, strict=True):
            layer.unroll = unroll
