"""Functions as graphs: what operations they have, and whether XLA compiles them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import tensorflow as tf

P = ParamSpec("P")
Owner = TypeVar("Owner")
Result = TypeVar("Result")


class Compiled:
    """`function`, traced once for each kind of arguments.

    Args:
        function: of structures of tensors; what else it uses must not change.
        jit_compile: whether XLA compiles it. None: unless it convolves on a CPU, where XLA's
            convolutions take many times as long as TensorFlow's.
        autograph: whether its `if` and `while` may depend on tensors.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        jit_compile: bool | None = None,
        *,
        autograph: bool = False,
    ) -> None:
        as_graph = partial(tf.function, function, autograph=autograph)
        self._by_xla = as_graph(jit_compile=True)
        self._by_tensorflow = as_graph()
        self._jit_compile = jit_compile
        self._takes_xla: dict[Any, bool] = {}

    def __call__(self, *args: Any) -> Any:
        return self.graph(*args)(*args)

    def graph(self, *args: Any) -> tf.types.experimental.ConcreteFunction:
        """The graph for such arguments."""
        if self._jit_compile is not False:
            graph = self._by_xla.get_concrete_function(*args)
            if self._jit_compile or self._is_for_xla(graph):
                return graph
        return self._by_tensorflow.get_concrete_function(*args)

    def _is_for_xla(self, graph: tf.types.experimental.ConcreteFunction) -> bool:
        if graph not in self._takes_xla:
            on_cpu = not tf.config.list_logical_devices("GPU")
            self._takes_xla[graph] = not (on_cpu and convolves(graph.graph))
        return self._takes_xla[graph]


def as_graph(
    method: Callable[Concatenate[Owner, P], Result],
) -> Callable[Concatenate[Owner, P], Result]:
    """A method whose eager calls run as graphs: one for each object and kind of arguments."""
    graphs = tf.function(method, autograph=False)

    @wraps(method)
    def call(self: Owner, *args: P.args, **kwargs: P.kwargs) -> Result:
        if tf.executing_eagerly():
            return graphs.__get__(self, type(self))(*args, **kwargs)
        return method(self, *args, **kwargs)

    return call


def convolves(graph: tf.Graph) -> bool:
    """Whether there is a convolution in it."""
    return any(op.startswith(("Conv2D", "Conv3D", "DepthwiseConv")) for op in operations(graph))


def has_loops(graph: tf.Graph) -> bool:
    """Whether there is a loop in it, as in that of an LSTM."""
    return any(op.endswith("While") for op in operations(graph))


def operations(graph: tf.Graph) -> set[str]:
    """The kinds of its operations and of those of the functions that it calls."""
    definition = graph.as_graph_def()
    bodies = [definition.node, *(f.node_def for f in definition.library.function)]
    return {node.op for nodes in bodies for node in nodes}
