"""Private names of Keras that go through the graphs of models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import keras
from keras.src.models.functional import Functional

from tfbdl.keras_private import is_graph, set_keras_mask, takes_training

Replace = Callable[[Any], Any]
"""A function from a layer or operation to a new one, the same each time it is asked about one."""


def rebuild(model: keras.Model, replace: Replace, dtype: str | None = None) -> keras.Model:
    """A model like `model`, with `replace(layer)` in the place of each layer and operation.

    Name, inputs, graph and structure of the outputs are those of `model`. It does what
    `keras.models.clone_model` does, but does not compile, which fails for losses without a config.
    A model inside of it that shares layers with what is around it gives way to its layers: files of
    Keras forget what is shared across models.

    Args:
        model: a model with `is_graph(model)`.
        replace: gives the new layer for an old one.
        dtype: the type of the model and of inputs that are floating, by default as they were.
    """

    def fresh(tensor: keras.KerasTensor) -> keras.KerasTensor:
        config = tensor._keras_history.operation.get_config()
        if dtype is not None and tensor.dtype.startswith("float"):
            config["dtype"] = dtype
        return keras.layers.InputLayer(**config).output

    entwined = {id(inner) for inner in graphs_in(model) if _shares(model, inner)}

    def new(operation: Any) -> Any:
        return _inlined(operation, new) if id(operation) in entwined else replace(operation)

    if isinstance(model, keras.Sequential) and not entwined:
        stack = [fresh(model.inputs[0]), *map(replace, model.layers)]
        copy = keras.Sequential(stack, name=model.name)
    else:
        graph = _graph(model)
        inputs = keras.tree.map_structure(fresh, graph.input)
        outputs = graph._run_through_graph(inputs, operation_fn=new)
        copy = keras.Model(inputs, outputs, name=model.name)
    copy.dtype_policy = dtype or model.dtype_policy  # models, too, round their inputs
    return copy


def check_files_hold(name: str, model: keras.Model) -> None:
    """Raises ValueError if a file of Keras would forget that `model` shares layers across models.

    Args:
        name: the name of the argument that `model` is given as.
        model: any model; one of a class of its own may be made again from more than its graph.
    """
    if type(model) not in (Functional, keras.Sequential):
        return
    for inner in graphs_in(model):
        if _shares(model, inner):
            raise ValueError(
                f"{name}={model.name!r} shares layers with the model {inner.name!r} in it, which "
                "files of Keras forget; make one model of the layers of both, or keep sample() of "
                "what is fitted"
            )


def graphs_in(model: keras.Model) -> Iterator[keras.Model]:
    """The models that a model calls, and those that they call."""
    for layer in model.layers:
        if is_graph(layer):
            yield layer
            yield from graphs_in(layer)


def _shares(model: keras.Model, inner: keras.Model) -> bool:
    """Whether a layer in `inner` is also called by `model` elsewhere."""
    own = [inner, *graphs_in(inner)]
    others = [g for g in (model, *graphs_in(model)) if not any(g is one for one in own)]
    of_own, of_others = ({id(layer) for g in gs for layer in g.layers} for gs in (own, others))
    return not of_own.isdisjoint(of_others)


def _inlined(model: keras.Model, replace: Replace) -> Callable[..., Any]:
    """The new layers of a model as a function of its inputs."""
    graph = _graph(model)

    def call(inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        def within(operation: Any) -> Any:
            takes = isinstance(operation, keras.layers.Layer) and takes_training(operation)
            given = {"training": training} if takes and training is not None else {}
            return partial(replace(operation), **given)

        tensors = graph._standardize_inputs(inputs)
        for tensor, of_tensor in zip(tensors, keras.tree.flatten(mask), strict=False):
            if of_tensor is not None:
                set_keras_mask(tensor, of_tensor)
        return graph._run_through_graph(tensors, operation_fn=within)

    return call


def _graph(model: keras.Model) -> Any:
    return model._functional if isinstance(model, keras.Sequential) else model
