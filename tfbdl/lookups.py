"""Indices that embeddings are asked for, held against their tables.

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
from tfbdl.programs import Programs, as_graph
from tfbdl.recording import recorded

_CACHE = "_tfbdl_lookups"


def check_lookups(model: Any, x: Any, where: str = "") -> None:
    """Raises ValueError for the first index in inputs x that a table of the model has no row for.

    Only the lookups are computed of a forward pass, so that it costs next to nothing. Those in a
    loop of the model are not seen, as of an embedding in a cell.

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
        of_all = lookups.indices(keras.tree.map_structure(tf.convert_to_tensor, x))
    except (ValueError, TypeError, tf.errors.OpError):
        return  # who runs the model says in his own words why it does not take x
    for layer, of_calls in zip(tables(network), of_all, strict=True):
        for indices in (tensor.numpy() for tensor in of_calls):
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
        self.programs = Programs(model)

    @as_graph
    def indices(self, x: Any) -> list[list[tf.Tensor]]:
        """For each of `tables` the indices of each of its calls, int64."""
        layers = tables(self._model)
        with apart(), recorded(layers) as calls:
            self._model(x, training=False)
        here = tf.compat.v1.get_default_graph()
        seen = [
            call
            for call in calls
            if isinstance(call.x, tf.Tensor)
            and call.x.graph is here
            and call.z.shape.rank == call.x.shape.rank + 1  # and no product with the table
        ]
        return [
            [tf.cast(call.x, tf.int64) for call in seen if call.layer is layer] for layer in layers
        ]
