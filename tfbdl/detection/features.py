"""What detectors look at: arrays as they are, or what a layer of a model makes of inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfbdl.arguments import optional, positive_integer, shown
from tfbdl.batches import batches
from tfbdl.calls import apart
from tfbdl.examples import examples
from tfbdl.graphs import Compiled
from tfbdl.keras_private import walk
from tfbdl.model_arguments import keras_model, one_output, output_on
from tfbdl.programs import Programs
from tfbdl.recording import recorded
from tfbdl.sources import Source

_output_on = apart()(output_on)


class Part(NamedTuple):
    """Some of the examples.

    values: features or logits, float64 of shape (B, D).
    y: targets, of shape (B, ...); None where none are asked for, or there are none.
    """

    values: np.ndarray
    y: Any


class Features:
    """Features or logits of examples, batch by batch, from a model at its mean weights.

    The head is the last layer with a kernel that the model calls. Positions of a map of features
    are averaged.

    Args:
        model: the model; None where the examples are features or logits themselves.
        layer: the layer whose outputs are the features, or its name; None for the inputs of the
            head.
        logits: whether the outputs of the head, before its activation, are asked for instead.

    Raises:
        ValueError: if the model is none, has not the one layer that is meant, or has several
            outputs and no layer is named.
    """

    def __init__(
        self, model: keras.Model | None, layer: Any = None, *, logits: bool = False
    ) -> None:
        self.model = None if model is None else keras_model("model", model)
        self.layer = layer
        self._layer = None if layer is None else _layer_of(self.model, layer)
        self._logits = logits
        if self.model is not None and layer is None:
            one_output("model", self.model)
        self._programs = None if self.model is None else Programs(self.model)
        self._head_layer: keras.layers.Layer | None = None

    def parts(
        self,
        x: Any,
        y: Any = None,
        *,
        batch_size: int | None = None,
        steps: int | None = None,
        needs_y: bool = False,
    ) -> Iterator[Part]:
        """The features of x, in every form that `tfbdl.predict` takes, in batches.

        Raises:
            ValueError: if the data do not fit each other or the model, features are not finite, or
                `batch_size` is not positive.
        """
        optional(positive_integer, "batch_size", batch_size)
        source = Source(x, y, steps=steps, model=self.model)
        if self.model is None:
            for element in source.elements(needs_y=needs_y):
                yield self._part(_only_array(element.x), element.y, "x")
            return
        dtype = tf.as_dtype(keras.config.floatx())
        for batch in batches(source, batch_size, dtype, needs_y=needs_y).parts:
            values = self._program(batch.x)(batch.x).numpy()[: batch.size]
            yield self._part(values, _first(batch.y, batch.size), f"model={self.model.name}")

    def affine_head(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Kernel and bias, (D, C) and (C,), of the head of D inputs that `parts` has found.

        They are how it answers zeros and ones, whatever the type of layer.
        """
        head = self._head_layer
        assert head is not None
        with apart(), recorded([head], before_activation=True) as calls:
            head(np.zeros((1, size), "float32"), training=False)
            head(np.eye(size, dtype="float32"), training=False)
        bias, both = (np.asarray(call.z, np.float64) for call in calls)
        return both - bias, bias[0]

    def _part(self, values: np.ndarray, y: Any, source: str) -> Part:
        kind = "logits" if self._logits else "features"
        if values.ndim < 2 or (self._logits and (values.ndim > 2 or values.shape[1] < 2)):
            wanted = "(N, C) of two classes or more" if self._logits else "(N, D)"
            raise ValueError(f"{source} has {kind} of shape {values.shape}; give {wanted}")
        values = values.astype(np.float64)
        if not np.isfinite(values).all():
            raise ValueError(f"{source} has {kind} that are not finite; its training has diverged")
        return Part(values.mean(axis=tuple(range(1, values.ndim - 1))), y)

    def _program(self, x: Any) -> Callable[[Any], tf.Tensor]:
        assert self._programs is not None
        return self._programs.of("features", lambda: self._compiled(x))

    def _compiled(self, x: Any) -> Callable[[Any], tf.Tensor]:
        """The model as far as the features, as a graph."""
        model = self.model
        assert model is not None
        layer = self._layer or self._head(keras.tree.map_structure(lambda a: a[:1], x))
        of_inputs = not (self._layer or self._logits)

        @apart()
        def features(x: Any) -> tf.Tensor:
            with recorded([layer], before_activation=self._logits) as calls:
                model(x, training=False)
            if not calls:
                raise ValueError(f"layer={layer.name!r} is not called by model={model.name}")
            return calls[-1].x if of_inputs else calls[-1].z

        return Compiled(features, jit_compile=False)

    def _head(self, x: Any) -> keras.layers.Layer:
        """The last layer with a kernel that the model calls.

        Raises:
            ValueError: if there is none.
        """
        model = self.model
        assert model is not None
        _output_on(model, x)
        kernels = [a for a in walk(model) if hasattr(a, "kernel") and hasattr(a, "activation")]
        with apart(), recorded(kernels) as calls:
            model(x, training=False)
        if not calls:
            raise ValueError(
                f"model={model.name} has no layer with a kernel; name a layer, or give arrays of "
                "features and logits without a model"
            )
        self._head_layer = calls[-1].layer
        return self._head_layer


def _layer_of(model: keras.Model | None, layer: Any) -> keras.layers.Layer:
    """The layer that is meant, inside the model.

    Raises:
        ValueError: if there is none, or several.
    """
    if model is None:
        raise ValueError(f"layer={shown(layer)} is given without a model; give both")
    inside = [own for own in walk(model) if own is not model]
    meant = [
        own for own in inside if own is layer or (isinstance(layer, str) and own.name == layer)
    ]
    if len(meant) != 1:
        fault = f"has {len(meant)} layers of this name; give the layer itself"
        missing = f"has no such layer; its layers are {', '.join(own.name for own in inside)}"
        wrong = fault if meant else missing
        raise ValueError(f"layer={shown(layer)}: model={model.name} {wrong}")
    return meant[0]


def _first(y: Any, size: int) -> Any:
    return keras.tree.map_structure(lambda a: a.numpy()[:size], y, none_is_leaf=False)


def _only_array(x: Any) -> np.ndarray:
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "fiub":
        raise ValueError("x must be an array of features where there is no model; give one")
    return examples("x", x)
