"""Records of the inputs of layers, and their outputs before the activation, while a model runs.

Layers are listened to in the thread that asks: in all others they stay as they are, so that a model
may be recorded while another thread trains it, or predicts.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import keras

from tfbdl.keras_private import own_variables, walk
from tfbdl.quantization import is_quantized
from tfbdl.threads import Function, replaced


class Call(NamedTuple):
    """One call of a layer.

    layer: the layer.
    x: its first argument, given by place or by name.
    z: its output; before the activation, if asked for.
    """

    layer: keras.layers.Layer
    x: Any
    z: Any


@contextmanager
def recorded(
    layers: Iterable[keras.layers.Layer], *, before_activation: bool = False
) -> Iterator[list[Call]]:
    """The calls of these layers inside the context, in the order in which they ended.

    Works for any model, since the layers themselves are listened to.

    Args:
        layers: the layers.
        before_activation: whether their outputs are those before the `activation`, of layers that
            have one.
    """
    calls: list[Call] = []
    make = functools.partial(_listening, calls=calls, before_activation=before_activation)
    with each_call(layers, make):
        yield calls


@contextmanager
def each_call(
    layers: Iterable[keras.layers.Layer], make: Callable[[keras.layers.Layer, Function], Function]
) -> Iterator[None]:
    """A context in which each layer is called, in this thread, by what `make` gives.

    Args:
        layers: the layers.
        make: from a layer and its `call`, of one that is quantized `quantized_call`, to what takes
            its place.
    """
    with ExitStack() as stack:
        for layer in {id(layer): layer for layer in layers}.values():
            name = "quantized_call" if is_quantized(layer) else "call"
            stack.enter_context(replaced(layer, name, functools.partial(make, layer)))
        yield


def _listening(
    layer: keras.layers.Layer, own: Function, calls: list[Call], before_activation: bool
) -> Function:
    first = next(iter(inspect.signature(own).parameters), "")

    @functools.wraps(own)
    def call(*args: Any, **kwargs: Any) -> Any:
        x = args[0] if args else kwargs.get(first)
        if not (before_activation and hasattr(layer, "activation")):
            output = own(*args, **kwargs)
            calls.append(Call(layer, x, output))
            return output
        activation = layer.activation
        with replaced(layer, "activation", lambda _: keras.activations.linear):
            z = own(*args, **kwargs)
        calls.append(Call(layer, x, z))
        return activation(z)

    return call


def owners(model: keras.Model) -> list[keras.layers.Layer]:
    """The layer that made each of `model.trainable_variables`: none that only holds that layer."""
    owner = {id(v): layer for layer in walk(model) for v in own_variables(layer)}
    return [owner[id(v)] for v in model.trainable_variables]
