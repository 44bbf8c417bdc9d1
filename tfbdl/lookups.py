"""Indices that embeddings are asked for, compared with the sizes of their tables.

TensorFlow refuses an index that a table has no row for on a CPU; XLA looks up the last row in its
place, and a GPU zeros, without an error.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfbdl.calls import apart
from tfbdl.keras_private import walk
from tfbdl.programs import Programs
from tfbdl.recording import Call, recorded
from tfbdl.tensorflow_private import gradients_die

_CACHE = "_tfbdl_lookups"


def check_lookups(model: Any, x: Any, where: str = "") -> None:
    """Raises ValueError for the first index in inputs x that a table of the model has no row for.

    Only the lookups are computed of a forward pass, so that it costs next to nothing. Lookups in a
    loop of the model, such as those of an embedding in a cell, are not seen.

    Args:
        model: a model, or a posterior of one.
        x: the inputs.
        where: the part of the data that x is, for the message.
    """
    network: Any = model if isinstance(model, keras.Model) else getattr(model, "model", None)
    while getattr(network, "is_called_as_network", False):
        network = network.network
    if not isinstance(network, keras.Model) or not tables(network):
        return
    lookups = network.__dict__.setdefault(_CACHE, Lookups(network))
    try:
        looked_up = lookups.indices(x)
    except (ValueError, TypeError, tf.errors.OpError):
        return  # who runs the model says in his own words why it does not take x
    for layer, indices in looked_up:
        out = (indices < -layer.input_dim) | (indices >= layer.input_dim)
        if out.any():
            example = int(np.argwhere(out)[0][0])
            raise ValueError(
                f"x{where} asks layer {layer.name!r} for row {indices[out][0]} in example "
                f"{example}, of rows 0 to {layer.input_dim - 1}; give the layer more rows, or "
                "other inputs"
            )


def tables(model: keras.Model) -> list[keras.layers.Layer]:
    """The layers of a model that look up one of `input_dim` rows of `output_dim` numbers."""
    return [
        layer
        for layer in walk(model)
        if isinstance(layer, keras.layers.Layer)
        and hasattr(layer, "input_dim")
        and hasattr(layer, "output_dim")
    ]


class Lookups:
    """The lookups of a model, compiled. Kept with the model, so that they are compiled once."""

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._programs = Programs(model)

    def indices(self, x: Any) -> list[tuple[keras.layers.Layer, np.ndarray]]:
        """The layer and the indices of each lookup for inputs x, in the order of the calls."""
        leaves = [tf.convert_to_tensor(leaf) for leaf in keras.tree.flatten(x)]
        specs = tuple(tf.TensorSpec([None, *leaf.shape[1:]], leaf.dtype) for leaf in leaves)
        layers, graph = self._programs.of(specs, lambda: self._graph(x, specs))
        return [(layer, t.numpy()) for layer, t in zip(layers, graph(*leaves), strict=True)]

    def _graph(self, like: Any, specs: tuple[tf.TensorSpec, ...]) -> tuple[list[Any], Any]:
        """The layer of each lookup, and a function of the leaves of inputs, pruned to lookups."""
        calls: list[Call] = []

        def forward(*leaves: tf.Tensor) -> list[tf.Tensor]:
            with apart(), recorded(tables(self._model)) as all_calls:
                self._model(keras.tree.pack_sequence_as(like, leaves), training=False)
            calls.extend(filter(_is_lookup, all_calls))
            return [tf.cast(call.x, tf.int64) for call in calls]

        with gradients_die():
            whole = tf.compat.v1.wrap_function(forward, specs)
        return [call.layer for call in calls], whole.prune(
            whole.inputs[: len(specs)], whole.outputs
        )


def _is_lookup(call: Call) -> bool:
    """Whether it is a lookup in this graph, for inputs: no product with the table.

    Eager indices are constants that a layer holds, as the places of tokens.
    """
    x, here = call.x, tf.compat.v1.get_default_graph()
    is_here = isinstance(x, tf.Tensor) and getattr(x, "graph", None) is here
    return is_here and call.z.shape.rank == x.shape.rank + 1
