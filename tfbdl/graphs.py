"""Functions as graphs: their operations, and whether XLA compiles them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
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
        convolutions: whether, under None, XLA may compile convolutions on a CPU too: in a loop over
            draws it computes those that are the same for all draws once. Convolutions of `SLOW` it
            may compile only if they are computed once for such a loop.

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
        self._function = partial(tf.function, function, autograph=autograph)
        self._for_xla = self._function(jit_compile=True)
        self._traced = self._for_xla if jit_compile else self._function()
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
            if "compil" not in reason or (chosen is traced and not _calls_xla(traced.graph)):
                raise
            self._chosen[traced] = self._by_tensorflow(*args)
        return self._chosen[traced](*args)

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

    def _by_tensorflow(self, *args: Any) -> ConcreteFunction:
        """The graph without anything that XLA compiles."""
        _of_thread.by_xla = False
        try:
            with gradients_die():
                return self._function().get_concrete_function(*args)
        finally:
            _of_thread.by_xla = True

    def _choose(self, traced: ConcreteFunction, args: Any) -> ConcreteFunction:
        if self._jit_compile is False or not _of_thread.by_xla:
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


class _OfThread(threading.local):
    """Whether XLA may compile anything that is traced in this thread."""

    by_xla = True


_of_thread = _OfThread()


def _calls_xla(graph: tf.Graph) -> bool:
    """Whether it calls a function that XLA compiles."""
    return any(map(_is_by_xla, graph.get_operations()))


def _is_by_xla(operation: tf.Operation) -> bool:
    is_call = operation.type.endswith("PartitionedCall")
    return is_call and "_XlaMustCompile" in operation.node_def.attr


def convolves(graph: tf.Graph) -> bool:
    """Whether there is a convolution in it, outside of what XLA compiles anyway."""
    ops = [op for op in graph.get_operations() if not _is_by_xla(op)]
    return any(kind.startswith(("Conv2D", "Conv3D", "DepthwiseConv")) for kind in kinds(ops))


def convolves_slowly(graph: tf.Graph) -> bool:
    """Whether one of `SLOW` is in a loop, and on what changes there; or is in no loop."""
    functions = _functions(graph.as_graph_def())
    bodies = loop_bodies(graph)
    if not bodies:
        return any(op.startswith(SLOW) for op in operations(graph))
    return any(_is_slow(node, functions) for body in bodies for node in _changing(body))


def loop_bodies(graph: tf.Graph) -> list[Any]:
    """The definitions of the bodies of all loops in it."""
    functions = _functions(graph.as_graph_def())
    loops = (node for node in _nodes(graph) if node.op.endswith("While"))
    return [functions[node.attr["body"].func.name] for node in loops]


def _is_slow(node: Any, functions: dict[str, Any]) -> bool:
    """Whether a node is one of `SLOW`, or calls a function that has one."""
    return node.op.startswith(SLOW) or any(
        _is_slow(inner, functions)
        for name in _called(node)
        if name in functions
        for inner in functions[name].node_def
    )


def _changing(body: Any) -> list[Any]:
    """The nodes of a loop's body that depend on what it gives back otherwise than it was given."""
    pairs = zip(body.signature.input_arg, body.signature.output_arg, strict=True)
    todo = [given.name for given, back in pairs if body.ret[back.name] != given.name]
    takers: dict[str, list[Any]] = {}
    for node in body.node_def:
        for ref in node.input:
            takers.setdefault(ref.lstrip("^").split(":")[0], []).append(node)
    nodes: dict[str, Any] = {}
    while todo:
        new = [node for node in takers.get(todo.pop(), ()) if node.name not in nodes]
        nodes |= {node.name: node for node in new}
        todo += [node.name for node in new]
    return list(nodes.values())


def unknown_to_xla(graph: tf.Graph, device: str) -> set[str]:
    """The kinds of its operations that XLA has no kernel for, and what else it cannot compile.

    XLA loses, without an error, what does not fit into a `tf.TensorArray` that grows. The gradient
    of a loop asks for stacks, whose sizes XLA knows from `maximum_iterations` alone.
    """
    functions = _functions(graph.as_graph_def())
    unknown = operations(graph) - functions.keys() - operations_of_xla(device)
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


def behind(tensors: Iterable[tf.Tensor]) -> set[tf.Operation]:
    """The operations of their graph that compute them."""
    result: set[tf.Operation] = set()
    todo = {tensor.op for tensor in tensors}
    while todo:
        operation = todo.pop()
        result.add(operation)
        todo |= {*(tensor.op for tensor in operation.inputs), *operation.control_inputs} - result
    return result


def kinds(ops: Collection[tf.Operation]) -> set[str]:
    """The kinds of operations of a graph, and of those of the functions that they call."""
    if not ops:
        return set()
    names = {operation.name for operation in ops}
    definition = next(iter(ops)).graph.as_graph_def()
    functions = _functions(definition)
    nodes = [node for node in definition.node if node.name in names]
    result: set[str] = set()
    while nodes:
        result |= {node.op for node in nodes}
        called = {name for node in nodes for name in _called(node)} & {*functions}
        nodes = [node for name in called for node in functions.pop(name).node_def]
    return result


def _called(node: Any) -> list[str]:
    """The names of the functions that a node calls."""
    attributes = node.attr.values()
    return [f.name for a in attributes for f in (a.func, *a.list.func) if f.name]


def operations(graph: tf.Graph) -> set[str]:
    """The kinds of its operations and of those of the functions that it calls."""
    return {node.op for node in _nodes(graph)}


def _nodes(graph: tf.Graph) -> Iterator[Any]:
    for nodes in _bodies(graph):
        yield from nodes


def _functions(definition: Any) -> dict[str, Any]:
    """The definitions of the functions of a graph, by their names."""
    return {f.signature.name: f for f in definition.library.function}


def _bodies(graph: tf.Graph) -> list[Any]:
    """The nodes of the graph, and of each of its functions."""
    definition = graph.as_graph_def()
    return [definition.node, *(f.node_def for f in definition.library.function)]
