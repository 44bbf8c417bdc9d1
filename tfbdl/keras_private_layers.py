"""Uses of private names of Keras that look into layers, and change what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras.src.backend.common.global_state import get_global_attribute
from keras.src.layers.core.einsum_dense import _analyze_einsum_string

from tfbdl.keras_private import is_graph
from tfbdl.quantization import has_integers


def adopt_signature(
    layer: keras.layers.Layer, other: keras.layers.Layer, own: Sequence[str] = ()
) -> None:
    """Makes `layer`, whose `call` takes anything, be called as `other` is.

    Args:
        layer: the layer.
        other: a layer that it calls.
        own: call arguments that Keras hands down, and `layer.call` itself takes.
    """
    layer._call_signature = other._call_signature
    layer.call_signature_parameters = list(other.call_signature_parameters)
    layer._call_has_training_arg = other._call_has_training_arg or "training" in own
    layer._call_has_mask_arg = other._call_has_mask_arg
    layer._call_context_args = {*other._call_context_args, *own}
    layer._call_has_context_arg = {**other._call_has_context_arg, **dict.fromkeys(own, True)}


def call_with(
    layer: keras.layers.Layer,
    values: Sequence[tuple[keras.Variable, tf.Tensor]],
    *args: Any,
    **kwargs: Any,
) -> tuple[Any, list[tf.Tensor]]:
    """What a layer gives with values in the places of its variables, and the losses that it adds.

    Other variables change as in any call.
    """
    scope = keras.StatelessScope(values, collect_losses=True)
    outer = get_global_attribute("stateless_scope")
    if outer is not None:
        scope.state_mapping = {**outer.state_mapping, **scope.state_mapping}
    before = dict(scope.state_mapping)
    with scope:
        outputs = layer(*args, **kwargs)
    for v in layer.variables:
        after = scope.get_current_value(v)
        if after is not before.get(id(v)):
            v.assign(after)
    return outputs, scope.losses


def replace_tracked(
    owner: keras.layers.Layer, old: keras.layers.Layer, new: keras.layers.Layer
) -> None:
    """Has Keras count `new` among the layers of `owner`, in the place of `old`."""
    if owner._tracker.is_in_store("layers", old):
        owner._tracker.replace_tracked_value("layers", old, new)


def last_layers(model: keras.Model) -> list[keras.layers.Layer]:
    """The last layer with weights before each output, each once; none of models without a graph."""
    if not is_graph(model):
        return []

    def before(tensor: keras.KerasTensor) -> list[Any]:
        operation, node = tensor._keras_history[:2]
        if is_graph(operation):
            return [layer for output in operation.outputs for layer in before(output)]
        if getattr(operation, "trainable_variables", None) or has_integers(operation):
            return [operation]
        inputs = operation._inbound_nodes[node].input_tensors
        return [layer for tensor in inputs for layer in before(tensor)]

    last = [layer for output in model.outputs for layer in before(output)]
    return list({id(layer): layer for layer in last}.values())


class EinsumAxes(NamedTuple):
    """The shapes of the weights and outputs of an `EinsumDense`, and the kernel's axes by side.

    Keras 3.12 does not know the latter.
    """

    kernel_shape: tuple[int, ...]
    bias_shape: tuple[int, ...] | None
    output_shape: tuple[int | None, ...]
    input_axes: Any = None
    output_axes: Any = None

    def fitted(self, initializer: keras.initializers.Initializer) -> Any:
        """An initializer that scales by the numbers of inputs and outputs, told these axes."""
        unfitted = getattr(initializer, "input_axes", 0) is None
        if not (isinstance(initializer, keras.initializers.VarianceScaling) and unfitted):
            return initializer
        axes = {"input_axes": self.input_axes, "output_axes": self.output_axes}
        config = {**initializer.get_config(), "seed": initializer.seed, **axes}
        return type(initializer).from_config(config)


def einsum_axes(equation: str, bias_axes: str | None, x: Any, y: Any) -> EinsumAxes:
    """The axes of an `EinsumDense` with inputs of shape `x` and outputs of shape (B, *y)."""
    return EinsumAxes(*_analyze_einsum_string(equation, bias_axes, tuple(x), y))


def layer_paths(model: keras.Model) -> list[tuple[str, keras.layers.Layer]]:
    """All layers inside a model, each once, by the names of those they are in and their own."""
    paths: dict[int, tuple[str, keras.layers.Layer]] = {}

    def visit(layer: keras.layers.Layer, prefix: str) -> None:
        for inner in layer._layers:
            if id(inner) not in paths:
                paths[id(inner)] = prefix + inner.name, inner
                visit(inner, f"{prefix}{inner.name}/")

    visit(model, "")
    return list(paths.values())
