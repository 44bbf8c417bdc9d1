"""Every use of a private name of Keras, in one place; `tests/test_keras_private.py` guards them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

import keras
from keras.src.backend.common.global_state import get_global_attribute
from keras.src.backend.common.masking import get_keras_mask, set_keras_mask
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
from keras.src.models.functional import Functional
from keras.src.random.seed_generator import make_default_seed
from keras.src.saving.saving_lib import _walk_saveable

from tfbdl.snapshots import PLAIN, snapshot
from tfbdl.threads import OfThreads

__all__ = [
    "build_all",
    "copy_lambda",
    "drop_seed_generator",
    "forward_pass",
    "inherit_call_argument",
    "is_built_by_calls",
    "is_graph",
    "keras_mask",
    "leave_building_to_calls",
    "make_default_seed",
    "name_of",
    "named_variables",
    "own_attributes",
    "own_variables",
    "pair_layers",
    "recorded_arguments",
    "serialize_shared",
    "set_keras_mask",
    "set_loss",
    "settings_of",
    "takes_call_argument",
    "takes_training",
    "takes_training_of_loss",
    "walk",
]


_OF_TRAINING = {
    *vars(TensorFlowTrainer()),
    *("history", "optimizer", "stop_evaluating", "stop_predicting", "stop_training"),
    *(
        "_compile_config",
        "_compiled_trainable_state",
        "_eval_epoch_iterator",
        "_called",
        "_path",
        "_parent_path",
    ),
}
"""Attributes that `compile`, `fit`, calls and their like set."""
_OF_KERAS = {
    *vars(keras.layers.Layer(name="any")),
    *("_functional", "_inputs_struct", "_outputs_struct", "_inputs", "_outputs", "_nodes"),
    *("_nodes_by_depth", "_operations", "_operations_by_depth", "_layers", "_sequential_layers"),
}
"""Attributes of layers and models in which Keras keeps its records."""


def inherit_call_argument(layer: keras.layers.Layer, name: str) -> None:
    """Makes `layer` receive, and pass on to what it calls, the call argument `name`.

    Keras hands `training` down through all layers that a call reaches, whatever models lie between
    them; this asks for the same for another name.
    """
    layer._register_call_context_args(name)


def own_attributes(layer: keras.layers.Layer) -> dict[str, Any]:
    """The attributes of `layer` but those in which Keras keeps its records."""
    return {name: value for name, value in _held(layer).items() if name not in _OF_KERAS}


def _held(layer: keras.layers.Layer) -> dict[str, Any]:
    """All attributes, without what a thread has put in the place of functions."""
    return {
        name: value.own if isinstance(value, OfThreads) else value
        for name, value in dict(vars(layer)).items()  # a copy: other threads may change them
        if not isinstance(value, OfThreads) or value.is_attribute
    }


def keras_mask(outputs: Any) -> Any:
    """The mask that layers have handed on with a tensor; None if there is none."""
    return get_keras_mask(outputs)


def drop_seed_generator(layer: keras.layers.Layer) -> None:
    """Takes from a stock layer its generator of noise, whose state is a variable of the model."""
    layer._tracker.untrack(layer.seed_generator)
    del layer.seed_generator


def forward_pass() -> Any:
    """What Keras keeps of the outermost call that is going on in this thread; new for each."""
    return get_global_attribute("current_call_ctx")


def set_loss(layer: keras.layers.Layer, loss: Any) -> None:
    """Sets the one loss of a layer by `layer.add_loss`; called again, it replaces the loss.

    Keras forgets losses when a forward pass begins and keeps all that are added in it.
    """
    layer._clear_losses()
    layer.add_loss(loss)


def serialize_shared(layer: keras.layers.Layer) -> dict[str, Any]:
    """The config of `layer`; in a file with its identity, so that all that hold it share it again.

    Keras writes this key too, but loses it where a layer is an argument of several others.
    """
    config = keras.saving.serialize_keras_object(layer)
    saving = get_global_attribute("shared_objects/id_to_config_map") is not None
    return {**config, "shared_object_id": id(layer)} if saving and layer.variables else config


def takes_call_argument(layer: keras.layers.Layer, name: str) -> bool:
    """Whether `layer` asked for the call argument `name`."""
    return name in layer._call_context_args


def takes_training(model: keras.Model) -> bool:
    """Whether Keras tells `model`, and so the layers in it, that it trains."""
    return model._call_has_training_arg


def takes_training_of_loss(model: keras.Model) -> bool:
    """Whether Keras tells `model.compute_loss` that it trains."""
    return model._compute_loss_has_training_arg


def walk(layer: keras.layers.Layer) -> Iterator[keras.layers.Layer]:
    """All layers inside `layer`, itself first, each once."""
    yield from layer._flatten_layers()


def settings_of(layer: keras.layers.Layer) -> dict[str, Any]:
    """The settings that decide, beside weights, what a layer computes; equal if nothing changed.

    They are its attributes: plain values, functions, arrays, collections of these, and objects with
    settings of their own, such as tables for looking up. Notes that Keras and this package make
    while a layer is called are not among them.
    """
    settings = {
        name: value if name in _OF_KERAS else snapshot(value)
        for name, value in _held(layer).items()
        if name not in _OF_TRAINING
        and not name.startswith(("_self_", "_of_call", "_tfbdl_"))
        and (name not in _OF_KERAS or isinstance(value, PLAIN) or callable(value))
    }
    return {**settings, "dtype_policy": layer.dtype_policy}


def build_all(model: keras.Model, batch: tuple[Any, Any]) -> None:
    """Makes all variables of a compiled model, its metrics and its optimizer.

    `model.fit` does so when it meets its first batch; nothing is computed and no state changes.
    """
    with model.distribute_strategy.scope():
        model._symbolic_build(data_batch=batch)


def is_built_by_calls(layer: keras.layers.Layer) -> bool:
    """Whether its first call builds what a layer holds: layers, and its class has no `build`."""
    return hasattr(layer.build, "_is_default") and bool(layer._layers)


def leave_building_to_calls(layer: keras.layers.Layer) -> None:
    """Keeps from files what such a layer was built on; by it Keras takes all inside for built."""
    if is_built_by_calls(layer):
        layer._build_shapes_dict = None


def recorded_arguments(layer: keras.layers.Layer) -> dict[str, Any] | None:
    """What a layer was made with, its name left out; None if that was not all numbers and words."""
    recorded = getattr(layer, "_auto_config", None)
    return None if recorded is None else dict(recorded.config)


def is_graph(layer: keras.layers.Layer) -> bool:
    """Whether `layer` is a model that Keras knows as a graph: functional, or Sequential and built.

    A subclass is one unless it has a `call` of its own, which may do as it likes.
    """
    own = getattr(type(layer), "call", None)
    return own in (Functional.call, keras.Sequential.call) and bool(getattr(layer, "inputs", None))


def copy_lambda(layer: keras.layers.Lambda, dtype: str | None = None) -> keras.layers.Lambda:
    """A new layer with the functions of `layer` themselves, which no config can hold."""
    return keras.layers.Lambda(
        layer.function,
        output_shape=layer._output_shape,
        mask=layer.mask,
        arguments=layer.arguments,
        name=layer.name,
        dtype=dtype or layer.dtype_policy,
    )


def own_variables(layer: keras.layers.Layer) -> list[keras.Variable]:
    """The variables of `layer` but not of layers in it: weights, then the state of its noise."""
    weights = layer._trainable_variables + layer._non_trainable_variables
    return [*weights, *(generator.state for generator in layer._seed_generators)]


def name_of(variable: keras.Variable) -> str:
    """The name of a variable; "variable" if it was given none, which Keras numbers as it goes."""
    return re.sub(r"^variable_\d+$", "variable", variable.name)


def named_variables(layer: keras.layers.Layer) -> dict[str, keras.Variable]:
    """`own_variables` by names that a copy has too; those that share a name are numbered."""
    named: dict[str, keras.Variable] = {}
    for variable in own_variables(layer):
        name = first = name_of(variable)
        number = 0
        while name in named:
            number += 1
            name = f"{first}_{number}"
        named[name] = variable
    return named


def weight_paths(model: keras.Model) -> dict[int, str]:
    """Paths of the trainable variables by id: names of the layers around them, then their own.

    They are the same before and after saving, which `Variable.path` is not.
    """
    paths: dict[int, str] = {}

    def visit(layer: keras.layers.Layer, prefix: str) -> None:
        names = {id(v): name for name, v in named_variables(layer).items()}
        for v in layer._trainable_variables:
            paths.setdefault(id(v), prefix + names[id(v)])
        for inner in layer._layers:
            visit(inner, f"{prefix}{inner.name}/")

    visit(model, "")
    return paths


def pair_layers(
    layer: keras.layers.Layer, other: keras.layers.Layer, without: Collection[int] = ()
) -> Iterator[tuple[keras.layers.Layer, keras.layers.Layer]]:
    """`layer` and `other`, then the layers under the same attributes of both, as files match them.

    A layer under two attributes of `layer` may be two layers in `other`, as configs make them. The
    layers whose ids are in `without` are left out, with all that they hold.

    Raises:
        ValueError: if a list of layers has more of them in one than in the other.
    """
    seen: set[int] = set()

    def layers_in(part: Any) -> list[keras.layers.Layer]:
        if isinstance(part, (list, tuple, dict)):
            members = part.values() if isinstance(part, dict) else part
            return [layer for member in members for layer in layers_in(member)]
        return [part] if isinstance(part, keras.layers.Layer) else []

    def pairs(a: Any, b: Any) -> Iterator[tuple[Any, Any]]:
        if id(b) in seen or id(a) in without:
            return
        seen.add(id(b))
        yield a, b
        parts = dict(_walk_saveable(b))
        for name, part in _walk_saveable(a):
            for pair in zip(layers_in(part), layers_in(parts.get(name)), strict=True):
                yield from pairs(*pair)

    return pairs(layer, other)
