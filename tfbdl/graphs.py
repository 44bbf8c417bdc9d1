"""Functions as graphs: their operations, and whether XLA compiles them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import tensorflow as tf

from tfbdl.tensorflow_private import gradients_die, operations_of_xla

ConcreteFunction: TypeAlias = tf.types.experimental.ConcreteFunction

SLOW = ("DepthwiseConv", "Conv2DBackpropInput", "Conv3D")
"""Depthwise, transposed and 3D convolutions: on a CPU XLA takes 5 to 20 times as long."""

_STACK = "EmptyTensorList"


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
        self._for_xla = tf.function(function, autograph=autograph, jit_compile=True)
        plain = tf.function(function, autograph=autograph)
        self._traced = self._for_xla if jit_compile else plain
        self._jit_compile = jit_compile
        self._convolutions = convolutions
        self._chosen: dict[ConcreteFunction, ConcreteFunction] = {}

    def __call__(self, *args: Any) -> Any:
        traced, chosen = self._graphs(*args)
        try:
            return chosen(*args)
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
            reason = str(error)
            if self._jit_compile and "compil" in reason:
                raise _refusal(reason.splitlines()[0]) from None
            if chosen is traced or "compil" not in reason:
                raise
            self._chosen[traced] = traced
        return traced(*args)

    def graph(self, *args: Any) -> ConcreteFunction:
        """The graph for such arguments."""
        return self._graphs(*args)[1]

    def _graphs(self, *args: Any) -> tuple[ConcreteFunction, ConcreteFunction]:
        """The graph as it is traced, and what runs: the same, or that by XLA."""
        with gradients_die():
            traced = self._traced.get_concrete_function(*args)
            if traced not in self._chosen:
                self._chosen[traced] = self._choose(traced, args)
        return traced, self._chosen[traced]

    def _choose(self, traced: ConcreteFunction, args: Any) -> ConcreteFunction:
        if self._jit_compile is False:
            return traced
        device = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
        unknown = unknown_to_xla(traced.graph, device)
        if self._jit_compile:
            if unknown:
                raise _refusal(f"XLA cannot compile {', '.join(sorted(unknown))}")
            return traced
        convolved = convolves_slowly if self._convolutions else convolves
        if unknown or (device == "CPU" and convolved(traced.graph)):
            return traced
        if _keeps_stacks(traced.graph):  # their sizes are in it only where it is traced for XLA
            return self._for_xla.get_concrete_function(*args)
        by_xla = tf.function(traced, autograph=False, jit_compile=True)
        return by_xla.get_concrete_function(*args)


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
    """The kinds of its operations that XLA has no kernel for, and what else it cannot compile.

    Of a `tf.TensorArray` that grows XLA loses what does not fit, without an error. The gradient
    of a loop asks for stacks, whose sizes XLA knows from `maximum_iterations` alone.
    """
    functions = {f.signature.name for f in graph.as_graph_def().library.function}
    unknown = operations(graph) - functions - operations_of_xla(device)
    lists = [node for node in _nodes(graph) if node.op == "TensorListSetItem"]
    if any(node.attr["resize_if_index_out_of_bounds"].b for node in lists):
        unknown |= {"a TensorArray of dynamic_size"}
    if _keeps_endless_stacks(graph):
        unknown |= {"the gradient of a tf.while_loop without maximum_iterations"}
    return unknown | {"strings" for tensor in graph.inputs if tensor.dtype == tf.string}


def _keeps_stacks(graph: tf.Graph) -> bool:
    """Whether a loop in it keeps what its gradient asks for, in stacks."""
    return _STACK in operations(graph)


def _keeps_endless_stacks(graph: tf.Graph) -> bool:
    """Whether one of these has no largest size."""
    for nodes in _bodies(graph):
        constants = {n.name: n.attr["value"].tensor for n in nodes if n.op == "Const"}
        for node in nodes:
            size = constants.get(node.input[1].split(":")[0]) if node.op == _STACK else None
            if size is not None and tf.make_ndarray(size) < 0:
                return True
    return False


def _refusal(reason: str) -> ValueError:
    return ValueError(f"jit_compile=True: {reason}; leave jit_compile out")


def has_loops(graph: tf.Graph) -> bool:
    """Whether there is a loop in it, as in that of an LSTM."""
    return any(op.endswith("While") for op in operations(graph))


def operations(graph: tf.Graph) -> set[str]:
    """The kinds of its operations and of those of the functions that it calls."""
    return {node.op for node in _nodes(graph)}


def _nodes(graph: tf.Graph) -> Iterator[Any]:
    for nodes in _bodies(graph):
        yield from nodes


def _bodies(graph: tf.Graph) -> list[Any]:
    """The nodes of the graph, and of each of its functions."""
    definition = graph.as_graph_def()
    return [definition.node, *(f.node_def for f in definition.library.function)]
