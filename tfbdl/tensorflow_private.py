"""Every use of a private name of TensorFlow, in one place."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import kernels, op_def_registry, ops
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
from tensorflow.python.framework.func_graph import FuncGraph

__all__ = [
    "custom_gradient",
    "custom_gradients",
    "frozen",
    "gradients_die",
    "is_in_reach",
    "is_stateful",
    "let_gradients_die",
    "on_all_replicas",
    "operations_of_xla",
]

_gradients: dict[str, dict[str, Any]] = ops.gradient_registry._registry

_NOT_RUN = frozenset({"Placeholder"})
"""Operations that stand in graphs for arguments."""


def frozen(function: Any) -> Any:
    """A concrete function with constants for its variables, and its calls of others laid out.

    Its loops stay what they are, operations with functions of their own.
    """
    return convert_variables_to_constants_v2(function, lower_control_flow=False)


def is_in_reach(tensor: tf.Tensor) -> bool:
    """Whether what is computed now may use it: an eager tensor, or one of a graph around this."""
    if hasattr(tensor, "numpy"):
        return True
    graph = tf.compat.v1.get_default_graph()
    while graph is not None and graph is not tensor.graph:
        graph = getattr(graph, "outer_graph", None)
    return graph is not None


def is_stateful(kind: str) -> bool:
    """Whether operations of this kind read or change what is not among their arguments."""
    definition = op_def_registry.get(kind)
    return definition is None or definition.is_stateful


@cache
def operations_of_xla(device: str) -> frozenset[str]:
    """The kinds of operations that XLA can compile for a "CPU" or a "GPU"."""
    tf.function(lambda x: x, jit_compile=True)(tf.constant(0.0))  # its kernels come with first use
    registered = kernels.get_all_registered_kernels().kernel
    return _NOT_RUN | {
        kernel.op for kernel in registered if kernel.device_type == f"XLA_{device}_JIT"
    }


def custom_gradients() -> set[str]:
    """The names of the functions of `tf.custom_gradient` that TensorFlow keeps."""
    return {name for name in list(_gradients) if name.startswith("CustomGradient-")}


def let_gradients_die(older: set[str]) -> None:
    """Lets custom gradients go with the graphs in which they were traced, all but `older` ones.

    TensorFlow keeps them for ever, and each keeps its graph, with the constants, variables and data
    that this has captured. It asks for them by the name that an operation of the graph has, so
    that the graph, and those around it, may be the ones that keep them.
    """
    for name in custom_gradients() - older:
        entry = _gradients.get(name)
        if entry is None:  # it has died meanwhile
            continue
        function = entry["type"]
        graph = _graph_of(function)
        if graph is None:
            continue
        while isinstance(graph, FuncGraph):
            graph._tfbdl_gradients = [*getattr(graph, "_tfbdl_gradients", ()), function]
            graph = graph.outer_graph
        entry["type"] = _weakly(function, name)


@contextmanager
def gradients_die() -> Iterator[None]:
    """Lets gradients die, as `let_gradients_die`, in graphs that are traced inside the context."""
    older = [*_gradients]
    try:
        yield
    finally:
        if len(_gradients) > len(older) or [*_gradients] != older:
            let_gradients_die({*older})


def custom_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Like `tf.custom_gradient`, in graphs that are given back when nobody needs them.

    Variables that the function reads are constants of it: they get no gradient.
    """

    @tf.custom_gradient
    @wraps(function)
    def known(*args: Any) -> tuple[Any, Callable[..., Any]]:
        value, gradient = function(*args)

        def of_arguments(*upstream: Any, variables: Sequence[tf.Variable] | None = None) -> Any:
            gradients = gradient(*upstream)
            return gradients if variables is None else (gradients, [None] * len(variables))

        return value, of_arguments

    @tf.autograph.experimental.do_not_convert  # it would call the function without its gradient
    def call(*args: Any) -> Any:
        if tf.executing_eagerly():
            return known(*args)
        with gradients_die():
            return known(*args)

    return call


def on_all_replicas(update: Callable[[tf.Variable], Any], variables: Sequence[Any]) -> None:
    """Calls `update` for each of Keras' variables on every replica, from a step of any of them."""

    def update_all(strategy: tf.distribute.Strategy, values: Sequence[tf.Variable]) -> None:
        for value in values:
            strategy.extended.update(value, update, group=False)

    strategy = tf.distribute.get_strategy()
    values = [variable.value for variable in variables]
    tf.__internal__.distribute.interim.maybe_merge_call(update_all, strategy, values)


def _weakly(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    reference = weakref.ref(function, lambda _: _gradients.pop(name, None))

    def gradient(op: tf.Operation, *upstream: tf.Tensor) -> Any:
        alive = reference()
        assert alive is not None, "an operation without its graph"
        return alive(op, *upstream)

    return gradient


def _graph_of(function: Callable[..., Any], depth: int = 3) -> tf.Graph | None:
    """The graph of the tensors around which `function`, or one that it calls, is closed."""
    for cell in getattr(function, "__closure__", None) or ():
        for part in tf.nest.flatten(cell.cell_contents):
            if isinstance(part, tf.Tensor) and hasattr(part, "graph"):
                return part.graph
            graph = _graph_of(part, depth - 1) if depth and callable(part) else None
            if graph is not None:
                return graph
    return None
