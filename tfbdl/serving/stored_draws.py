"""Drawn functions as graphs without noise: what the inputs do not change is computed and stored.

A graph of outputs for inputs x and a draw has parts that depend on x alone, on the draw alone, and
on both. The weights and masks that leave the second part are computed here for each draw, and
become constants; then the first part is laid out once, and the third once for each draw. So no
layer needs to know of it, and runtimes without the integers of noise can run the result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfbdl.draws import make_draw
from tfbdl.serving.plain_nodes import plain
from tfbdl.tensorflow_private import frozen

MOST_BYTES = 2_000_000_000
"""The numbers that a graph may hold; files of all formats end at 2^31 bytes."""

_OF_NOISE = "BitwiseXor"
"""An operation of the noise (`tfbdl.random`), and of nothing else in a network."""
_LISTS = frozenset({"EmptyTensorList", "TensorListReserve"})
"""Operations without inputs whose results no constant can hold."""


class StoredDraws:
    """S functions of x with constant weights and masks: `StoredDraws(...)(*inputs)`, in a graph.

    Args:
        drawn: outputs for inputs and `draw=`.
        specs: the inputs.
        seed: the seed of the draws.
        num_samples: S.
        name: the name of the model, for messages.

    Raises:
        ValueError: if the noise depends on x, the model looks up tables or computes in other types
            than float32, or the constants are more than a file holds.
    """

    def __init__(
        self,
        drawn: Callable[..., tf.Tensor],
        specs: Sequence[tf.TensorSpec],
        seed: int,
        num_samples: int,
        name: str,
    ) -> None:
        self._graph = graph = _Graph(drawn, specs)
        if any(tensor.dtype == tf.resource for tensor in graph.function.inputs):
            raise ValueError(
                f"model={name} looks up tables, which only format='tf_saved_model' can hold; give "
                "a model of what comes after them"
            )
        of_x = graph.reached([*graph.inputs, *graph.lists])
        of_draw = graph.reached([graph.draw, *graph.lists])
        laid_out = graph.behind(graph.output) & of_x - {*graph.inputs}
        self._shared, self._each = laid_out - of_draw, laid_out & of_draw
        others = sorted(graph.float_types(laid_out) - {"float32"})
        if others:
            raise ValueError(
                f"model={name} computes in {' and '.join(others)}, which only "
                "format='tf_saved_model' can hold; build it in float32 and give it the weights"
            )
        if any(graph.nodes[node].op == _OF_NOISE for node in self._each):
            raise ValueError(
                f"model={name} has noise that depends on the number or lengths of its inputs, so "
                "that no constant can hold it; use fixed lengths, and no per_example=True"
            )
        stored = [ref for ref in graph.taken_by(laid_out) if _node(ref) not in of_x]
        self._stored = _stored(graph, stored, seed, num_samples, name)

    def __call__(self, *inputs: tf.Tensor) -> list[tf.Tensor]:
        graph, constants = self._graph, _Constants()
        known = dict(zip(graph.inputs, inputs, strict=True))
        common = [ref for ref in graph.taken_by(self._each) if _node(ref) in self._shared]
        common += [graph.output] if graph.output in self._shared else []
        known |= graph.lay_out(
            "of_all", self._shared, known | constants.of(self._stored[0]), common
        )
        outputs = []
        for s, stored in enumerate(self._stored):
            last = [graph.output] if graph.output in self._each else []
            own = known | constants.of(stored)
            results = graph.lay_out(f"of_{s}", self._each, own, last)
            outputs.append((known | results)[graph.output])
        return outputs


class _Graph:
    """The operations of a function without variables, and who takes what from whom.

    What an operation takes is named as in a graph's definition: "node" its first result, "node:1"
    its second.
    """

    def __init__(self, drawn: Callable[..., tf.Tensor], specs: Sequence[tf.TensorSpec]) -> None:
        traced = tf.function(
            lambda *inputs: drawn(*inputs[:-1], draw=inputs[-1]),
            autograph=False,
            input_signature=[*specs, tf.TensorSpec((2,), tf.int64, name="draw")],
        )
        self.function = frozen(traced.get_concrete_function())
        self._definition = self.function.graph.as_graph_def()
        self.nodes = {node.name: node for node in self._definition.node}
        for node in self.nodes.values():
            data = [ref for ref in node.input if not ref.startswith("^")]
            node.ClearField("input")
            node.input.extend(data)
            node.attr.pop("_class", None)  # it names other operations too
            node.attr.pop("_gradient_op_type", None)
        *self.inputs, self.draw = (tensor.op.name for tensor in self.function.inputs)
        self.output = self.function.outputs[0].op.name
        self.lists = [name for name, node in self.nodes.items() if node.op in _LISTS]

    def reached(self, starts: Iterable[str]) -> set[str]:
        """The nodes that depend on these, and these."""
        takers: dict[str, list[str]] = {}
        for name, node in self.nodes.items():
            for ref in node.input:
                takers.setdefault(_node(ref), []).append(name)
        return _closure(starts, lambda name: takers.get(name, ()))

    def behind(self, end: str) -> set[str]:
        """The nodes that this one depends on, and this one."""
        return _closure([end], lambda name: map(_node, self.nodes[name].input))

    def float_types(self, names: Collection[str]) -> set[str]:
        """The types of the numbers that these nodes give, but integers."""
        find = self.function.graph.get_operation_by_name
        types = {tensor.dtype for name in names for tensor in find(name).outputs}
        return {dtype.name for dtype in types if dtype.is_floating}

    def taken_by(self, names: Collection[str]) -> list[str]:
        """All that these nodes take, each once."""
        return sorted({ref for name in names for ref in self.nodes[name].input})

    def values(self, refs: Sequence[str]) -> Callable[[tf.Tensor], list[tf.Tensor]]:
        """The values of these for a draw."""
        graph = self.function.graph
        draw, *results = (graph.get_tensor_by_name(_tensor(ref)) for ref in (self.draw, *refs))
        return self.function.prune([draw], results)

    def lay_out(
        self,
        scope: str,
        names: Collection[str],
        known: Mapping[str, tf.Tensor],
        refs: Sequence[str],
    ) -> dict[str, tf.Tensor]:
        """Puts these nodes into the graph that is being made; `refs` of what they give."""
        nodes = [part for name in sorted(names) for part in plain(self.nodes[name], self.nodes)]
        part = tf.compat.v1.GraphDef(
            node=nodes, library=self._definition.library, versions=self._definition.versions
        )
        _rename_functions(part, scope)
        taken = {ref: known[ref] for node in nodes for ref in node.input if ref in known}
        results = tf.graph_util.import_graph_def(part, taken, list(map(_tensor, refs)), name=scope)
        return dict(zip(refs, results, strict=True))


class _Constants:
    """Constants of a graph that is being made, one for each array."""

    def __init__(self) -> None:
        self._made: dict[int, tf.Tensor] = {}

    def of(self, arrays: Mapping[str, np.ndarray]) -> dict[str, tf.Tensor]:
        for array in arrays.values():
            if id(array) not in self._made:
                self._made[id(array)] = tf.constant(array)
        return {ref: self._made[id(array)] for ref, array in arrays.items()}


def _stored(
    graph: _Graph, refs: Sequence[str], seed: int, num_samples: int, name: str
) -> list[dict[str, np.ndarray]]:
    """The values at `refs` for each draw; where they equal those of the first, the same arrays."""
    values, size = graph.values(refs), 0
    stored: list[dict[str, np.ndarray]] = []
    for s in range(num_samples):
        arrays = [value.numpy() for value in values(make_draw(seed, s))]
        first = stored[0].values() if stored else ()
        for i, known in enumerate(first):
            if np.array_equal(arrays[i], known):
                arrays[i] = known
        new = set(map(id, arrays)) - set(map(id, first))
        size += sum(array.nbytes for array in arrays if id(array) in new)
        if size > MOST_BYTES:
            raise ValueError(
                f"num_samples={num_samples} functions of model={name} are more than the "
                f"{MOST_BYTES / 1e9:g} GB that a file holds; give at most {s}, or use "
                "format='tf_saved_model'"
            )
        stored.append(dict(zip(refs, arrays, strict=True)))
    return stored


def _rename_functions(definition: Any, scope: str) -> None:
    """Gives the loops of a graph bodies of their own: tf2onnx does not let two share one."""
    functions = definition.library.function
    inner = [node for function in functions for node in function.node_def]
    for node in (*definition.node, *inner):
        for value in node.attr.values():
            for called in (value.func, *value.list.func):
                if called.name:
                    called.name += f"_{scope}"
    for function in functions:
        function.signature.name += f"_{scope}"


def _node(ref: str) -> str:
    """The operation that gives what is named."""
    return ref.split(":", maxsplit=1)[0]


def _tensor(ref: str) -> str:
    """The name of a tensor, whose number is not left out."""
    return ref if ":" in ref else f"{ref}:0"


def _closure(starts: Iterable[str], following: Callable[[str], Iterable[str]]) -> set[str]:
    reached = set(starts)
    todo = list(reached)
    while todo:
        new = set(following(todo.pop())) - reached
        reached |= new
        todo += new
    return reached
