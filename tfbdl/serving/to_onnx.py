"""Graphs as files of ONNX, by tf2onnx."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

Formula = Callable[[Callable[..., str], Callable[[float], str], str], str]
"""The name of a result for x, by `operation(kind, *names)` and `number(value)`."""
_MADE_OF_OTHERS: dict[str, Formula] = {
    "Erfc": lambda operation, number, x: operation("Sub", number(1.0), operation("Erf", x)),
    "Expm1": lambda operation, number, x: operation(  # keeps its digits near 0
        "Mul",
        operation("Tanh", operation("Mul", x, number(0.5))),
        operation("Add", operation("Exp", x), number(1.0)),
    ),
    "Log1p": lambda operation, number, x: operation("Log", operation("Add", x, number(1.0))),
}
"""Operations that ONNX has not, as others that it has."""


def packages() -> tuple[Any, Any]:
    """The packages tf2onnx and onnx.

    Raises:
        ImportError: if they are not installed.
    """
    try:
        import onnx  # noqa: PLC0415
        import tf2onnx  # noqa: PLC0415
    except ImportError:
        raise ImportError("format='onnx' needs tf2onnx; pip install 'tfbdl[onnx]'") from None
    return tf2onnx, onnx


def to_onnx(serve: Callable[..., Any], specs: Sequence[tf.TensorSpec], name: str) -> bytes:
    """The file of a function of tensors, whose inputs and outputs keep their names.

    Args:
        serve: a dictionary of tensors for inputs.
        specs: the inputs.
        name: the name of the model, for messages.

    Raises:
        ValueError: if ONNX has not all operations.
    """
    tf2onnx, onnx = packages()
    function = tf.function(serve, autograph=False, input_signature=specs)
    handlers = {kind: (_handler(formula), ()) for kind, formula in _MADE_OF_OTHERS.items()}
    with _quiet(), _copies_die():
        try:
            model, _ = tf2onnx.convert.from_function(function, specs, custom_op_handlers=handlers)
        except Exception as error:  # whatever the converter meets
            reason = " ".join(str(error).split())
            raise ValueError(
                f"model={name} cannot be converted to ONNX ({reason}); use format='tf_saved_model'"
            ) from None
    kinds = {(node.op_type, node.domain) for node in _nodes(model.graph)}
    unknown = sorted(kind for kind, domain in kinds if not onnx.defs.has(kind, domain))
    if unknown:
        raise ValueError(
            f"model={name} has operations that ONNX has not: {', '.join(unknown)}; use "
            "format='tf_saved_model'"
        )
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    return model.SerializeToString()


@contextmanager
def laid_out() -> Iterator[None]:
    """Functions for XLA that are made inside the context are part of the graph around them.

    Keras has XLA compile convolutions with groups, and TensorFlow keeps such calls as they are.
    """
    function = tf.function

    def in_place(python: Callable[..., Any] | None = None, *args: Any, **options: Any) -> Any:
        if not options.get("jit_compile"):
            return function(python, *args, **options)
        return (lambda decorated: decorated) if python is None else python

    tf.function = in_place
    try:
        yield
    finally:
        tf.function = function


def _handler(formula: Formula) -> Callable[..., None]:
    """The function by which tf2onnx puts others in the place of an operation."""

    def replace(graph: Any, node: Any, name: str, *_: Any) -> None:
        (x,), (result,) = node.input, node.output
        dtypes, shapes = node.output_dtypes, node.output_shapes
        tf2onnx, _ = packages()
        numpy_type = tf2onnx.utils.map_onnx_to_numpy_type(dtypes[0])

        def operation(kind: str, *names: str) -> str:
            return graph.make_node(kind, list(names), dtypes=dtypes, shapes=shapes).output[0]

        def number(value: float) -> str:
            of_name = tf2onnx.utils.make_name(name)
            return graph.make_const(of_name, np.array(value, numpy_type)).output[0]

        graph.remove_node(name)
        last = formula(operation, number, x)
        graph.make_node("Identity", [last], outputs=[result], dtypes=dtypes, shapes=shapes)

    return replace


def _nodes(graph: Any) -> Iterator[Any]:
    """All nodes of a graph, and of those inside them."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)


@contextmanager
def _copies_die() -> Iterator[None]:
    """Graphs that the converter no longer needs are given back before it copies another.

    It copies the graph, with all constants, for each of its optimisers, and the copies refer to
    themselves: they would wait for Python to look for such, until they are 70 times the file.
    """
    from tf2onnx.optimizer import optimizer_base  # noqa: PLC0415

    optimiser = optimizer_base.GraphOptimizerBase
    optimise = optimiser.optimize
    is_frozen = gc.get_freeze_count() > 0

    def optimise_and_collect(self: Any, graph: Any, iteration: int) -> Any:
        gc.collect()
        return optimise(self, graph, iteration)

    if not is_frozen:
        gc.freeze()  # all that is there now, which need not be looked through
    optimiser.optimize = optimise_and_collect
    try:
        yield
    finally:
        optimiser.optimize = optimise
        if not is_frozen:
            gc.unfreeze()


@contextmanager
def _quiet() -> Iterator[None]:
    """The converter logs nothing: what it cannot do is raised."""
    logger = logging.getLogger("tf2onnx")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)
