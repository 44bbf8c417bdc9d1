"""Every use of a private name of TensorFlow, in one place."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import kernels, ops
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
from tensorflow.python.framework.func_graph import FuncGraph
from tensorflow.python.ops.parallel_for import pfor

__all__ = [
    "bitcast",
    "custom_gradient",
    "custom_gradients",
    "frozen",
    "gradients_die",
    "is_in_reach",
    "let_gradients_die",
    "on_all_replicas",
    "operations_of_xla",
]

_gradients: dict[str, dict[str, Any]] = ops.gradient_registry._registry

_NOT_RUN = frozenset({"Placeholder"})
"""Operations that stand in graphs for arguments."""


def bitcast(x: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """`tf.bitcast`, which `tf.vectorized_map` takes for all elements at once.

    TensorFlow knows no vectorised form of it, and would loop over them.
    """
    return tf.bitcast(x, dtype)


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
    older = custom_gradients()
    try:
        yield
    finally:
        let_gradients_die(older)


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

    @tf.autograph.experimental.do_not_convert  # which would call the function without its gradient
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


if "Bitcast" not in pfor._pfor_converter_registry:

    @pfor.RegisterPFor("Bitcast")
    def _vectorised(op: pfor._PforInput) -> pfor.WrappedTensor:
        return pfor.wrap(tf.bitcast(op.stacked_input(0), op.get_attr("type")), True)


def _product(op: pfor._PforInput) -> pfor.WrappedTensor:
    """The product that `tf.vectorized_map` makes of products in its lanes.

    Matrices (n, 1, M, K) times one that is common to all lanes become (n, M, K) before: oneDNN
    breaks memory in the product of the former (TensorFlow 2.21, its issue 117700).
    """
    op.expanddim_inputs_for_broadcast()
    (x, x_varies, _), (y, y_varies, _) = op.inputs
    flags = {"adjoint_a": op.get_attr("adj_x"), "adjoint_b": op.get_attr("adj_y")}
    is_common = x_varies and not y_varies and y.shape.rank and set(y.shape[:-2]) <= {1}
    if x.shape.rank != 4 or not is_common:
        return pfor.wrap(tf.matmul(x, y, **flags), True)
    lanes, shape = tf.shape(x)[:2], tf.shape(x)[2:]
    z = tf.matmul(tf.reshape(x, tf.concat([[-1], shape], 0)), y, **flags)
    return pfor.wrap(tf.reshape(z, tf.concat([lanes, tf.shape(z)[-2:]], 0)), True)


pfor._pfor_converter_registry["BatchMatMulV2"] = _product


def _has_groups(op: pfor._PforInput, x: tf.TensorShape, kernel: tf.TensorShape) -> bool:
    channels = x[-3 if op.get_attr("data_format") == b"NCHW" else -1]
    return channels is not None and channels != kernel[2]


def _input_gradient(op: pfor._PforInput) -> list[pfor.WrappedTensor]:
    """That of a convolution, by XLA if it has groups: on a CPU TensorFlow alone may not have it."""
    (kernel, kernel_varies, _), like = op.input(1), op.outputs[0].shape
    if kernel_varies or None in like[1:] or not _has_groups(op, like, kernel.shape):
        return _plain_input_gradient(op)
    flags = _flags_of_convolution(op)

    @tf.function(jit_compile=True, autograph=False)
    def gradient(kernel: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
        lanes = tf.shape(upstream)[:2]
        sizes = tf.concat([[tf.reduce_prod(lanes)], like[1:]], axis=0)
        rows = tf.reshape(upstream, tf.concat([[-1], tf.shape(upstream)[2:]], axis=0))
        slopes = tf.raw_ops.Conv2DBackpropInput(
            input_sizes=sizes, filter=kernel, out_backprop=rows, **flags
        )
        return tf.reshape(slopes, tf.concat([lanes, like[1:]], axis=0))

    op.stack_inputs([2])
    return [pfor.wrap(gradient(kernel, op.stacked_input(2)), True)]


def _kernel_gradient(op: pfor._PforInput) -> pfor.WrappedTensor:
    """That of a convolution: lane by lane, if it has groups by XLA, or the lanes have own inputs.

    TensorFlow's rule for lanes of one input takes them for more channels: with groups these are the
    channels of others, and the gradients are wrong (2.21). For inputs of their own it loops too,
    with a warning.
    """
    (x, x_varies, _), kernel = op.input(0), op.outputs[0].shape
    has_groups = _has_groups(op, x.shape, kernel)
    if not has_groups and not x_varies:
        return _plain_kernel_gradient(op)
    flags = _flags_of_convolution(op)

    @tf.function(jit_compile=has_groups or None, autograph=False)
    def gradients(x: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
        def of_lane(lane: Sequence[tf.Tensor]) -> tf.Tensor:
            return tf.raw_ops.Conv2DBackpropFilter(
                input=lane[0] if x_varies else x,
                filter_sizes=kernel,
                out_backprop=lane[-1],
                **flags,
            )

        lanes = (x, upstream) if x_varies else (upstream,)
        return tf.map_fn(of_lane, lanes, fn_output_signature=x.dtype)

    op.stack_inputs([2])
    return pfor.wrap(gradients(x, op.stacked_input(2)), True)


def _flags_of_convolution(op: pfor._PforInput) -> dict[str, Any]:
    names = ("strides", "padding", "explicit_paddings", "data_format", "dilations")
    return {name: op.get_attr(name) for name in names}


_plain_input_gradient = pfor._pfor_converter_registry["Conv2DBackpropInput"]
_plain_kernel_gradient = pfor._pfor_converter_registry["Conv2DBackpropFilter"]
pfor._pfor_converter_registry["Conv2DBackpropInput"] = _input_gradient
pfor._pfor_converter_registry["Conv2DBackpropFilter"] = _kernel_gradient
