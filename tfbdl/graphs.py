"""Functions as graphs: their operations, and whether XLA compiles them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

from tfbdl.tensorflow_private import gradients_die, operations_of_xla

SLOW = ("DepthwiseConv", "Conv2DBackpropInput", "Conv3D")
"""Of single channels, transposed, in space: XLA takes 5 to 20 times as long for them on a CPU."""


class Compiled:
    """`function`, traced once for each kind of arguments.

    Args:
        function: a function of structures of tensors; what else it uses must not change.
        jit_compile: whether XLA compiles it. None: unless it has operations that XLA cannot
            compile, such as look-ups and those on strings, or convolves on a CPU, where XLA's
            convolutions take many times as long as TensorFlow's.
        autograph: whether its `if` and `while` may depend on tensors.
        convolutions: whether XLA may compile them on a CPU too, where it decides: in a loop over
            draws it moves out those that are the same for all. Those of `SLOW` it may only where
            it moves them out.

    Raises:
        ValueError: when called with True, and XLA cannot compile it.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        jit_compile: bool | None = None,
        *,
        autograph: bool = False,
        convolutions: bool = False,
    ) -> None:
        as_graph = partial(tf.function, function, autograph=autograph)
        self._by_xla = as_graph(jit_compile=True)
        self._by_tensorflow = as_graph()
        self._jit_compile = jit_compile
        self._convolutions = convolutions
        self._takes_xla: dict[Any, bool] = {}

    def __call__(self, *args: Any) -> Any:
        graph = self.graph(*args)
        try:
            return graph(*args)
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
            if not (self._takes_xla.get(graph) and "compil" in str(error)):
                raise
            if self._jit_compile:
                raise _refusal(str(error).splitlines()[0]) from None
            self._takes_xla[graph] = False
        return self.graph(*args)(*args)

    def graph(self, *args: Any) -> tf.types.experimental.ConcreteFunction:
        """The graph for such arguments."""
        with gradients_die():
            if self._jit_compile is not False:
                graph = self._by_xla.get_concrete_function(*args)
                if self._is_for_xla(graph):
                    return graph
            return self._by_tensorflow.get_concrete_function(*args)

    def _is_for_xla(self, graph: tf.types.experimental.ConcreteFunction) -> bool:
        if graph not in self._takes_xla:
            device = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
            unknown = unknown_to_xla(graph.graph, device)
            if unknown and self._jit_compile:
                raise _refusal(f"XLA cannot compile {', '.join(sorted(unknown))}")
            convolved = convolves_slowly if self._convolutions else convolves
            is_slow = device == "CPU" and convolved(graph.graph)
            self._takes_xla[graph] = not unknown and bool(self._jit_compile or not is_slow)
        return self._takes_xla[graph]


def convolves(graph: tf.Graph) -> bool:
    """Whether there is a convolution in it."""
    return any(op.startswith(("Conv2D", "Conv3D", "DepthwiseConv")) for op in operations(graph))


def convolves_slowly(graph: tf.Graph) -> bool:
    """Whether one of `SLOW` is in a loop, and on what changes there; or is in no loop."""
    definition = graph.as_graph_def()
    functions = {f.signature.name: f for f in definition.library.function}
    bodies = [
        functions[node.attr["body"].func.name]
        for nodes in (definition.node, *(f.node_def for f in functions.values()))
        for node in nodes
        if node.op.endswith("While")
    ]
    if not bodies:
        return any(op.startswith(SLOW) for op in operations(graph))
    return any(_is_slow(node, functions) for body in bodies for node in _changing(body))


def _is_slow(node: Any, functions: dict[str, Any]) -> bool:
    """Whether a node is one of `SLOW`, or calls a function that has one."""
    called = [functions[a.func.name] for a in node.attr.values() if a.func.name in functions]
    return node.op.startswith(SLOW) or any(
        _is_slow(inner, functions) for function in called for inner in function.node_def
    )


def _changing(body: Any) -> list[Any]:
    """The nodes of a loop's body that depend on what it gives back otherwise than it was given."""
    pairs = zip(body.signature.input_arg, body.signature.output_arg, strict=True)
    names = {given.name for given, back in pairs if body.ret[back.name] != given.name}
    nodes: list[Any] = []
    rest = list(body.node_def)
    while those := [n for n in rest if names & {i.lstrip("^").split(":")[0] for i in n.input}]:
        names |= {node.name for node in those}
        nodes += those
        rest = [node for node in rest if node.name not in names]
    return nodes


def unknown_to_xla(graph: tf.Graph, device: str) -> set[str]:
    """The kinds of its operations that XLA has no kernel for, and "strings" if it is given some."""
    functions = {f.signature.name for f in graph.as_graph_def().library.function}
    unknown = operations(graph) - functions - operations_of_xla(device)
    return unknown | {"strings" for tensor in graph.inputs if tensor.dtype == tf.string}


def _refusal(reason: str) -> ValueError:
    return ValueError(f"jit_compile=True: {reason}; leave jit_compile out")


def has_loops(graph: tf.Graph) -> bool:
    """Whether there is a loop in it, as in that of an LSTM."""
    return any(op.endswith("While") for op in operations(graph))


def operations(graph: tf.Graph) -> set[str]:
    """The kinds of its operations and of those of the functions that it calls."""
    definition = graph.as_graph_def()
    bodies = [definition.node, *(f.node_def for f in definition.library.function)]
    return {node.op for nodes in bodies for node in nodes}
