"""The part of a network that is the same in all functions, computed once for all of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from tfbdl.graphs import behind, kinds
from tfbdl.keras_private import walk
from tfbdl.recording import each_call
from tfbdl.tensorflow_private import is_stateful

_CALLS = ("PartitionedCall", "While", "If", "Case")
_READS = ("VarHandleOp", "ReadVariableOp", "ResourceGather", "VariableShape", "Assert")
_TABLES = ("HashTable", "AnonymousHashTable", "LookupTable")


class SharedPart:
    """All calls of layers that end before the first layer begins that varies.

    What has been computed before cannot depend on what differs between functions. The first
    function is to be computed in the graph of the inputs; all others, in loops or graphs of their
    own inside it, take from it what they share. Nothing is, where the shared part has noise or
    changes anything.

    Args:
        network: the network.
        varies: whether a layer is another in each function.
    """

    def __init__(self, network: keras.Model, varies: Callable[[keras.layers.Layer], bool]) -> None:
        self._network, self._varies = network, varies

    @contextmanager
    def known(self, x: Any, own: Sequence[tf.Tensor]) -> Iterator[None]:
        """A context in which the network, called for x, does not compute this part again.

        Args:
            x: the inputs; of eager ones nothing is shared.
            own: the tensors by which this function differs from others.
        """
        graph = _graph_of(x)
        network, *layers = walk(self._network)
        if graph is None or self._varies(network):
            yield
            return
        leaves = keras.tree.flatten(x)
        kept = graph.get_collection_ref(self)  # collections with names are written into exports
        for inputs, root in kept:
            if [*map(id, inputs)] == [*map(id, leaves)]:
                with each_call(layers if root.outputs() else (), _Replay(root).listening):
                    yield
                return
        if tf.compat.v1.get_default_graph() is not graph:
            yield
            return
        record = _Record(graph, {id(layer) for layer in layers if self._varies(layer)})
        with each_call(layers, record.listening):
            yield
        is_shared = not record.changes() and not record.depends_on(own)
        kept.append((leaves, record.root if is_shared else _Call()))


class _Call:
    """A call of a layer: its output, if that is shared; else the calls that it begins with."""

    def __init__(self) -> None:
        self.is_shared = False
        self.output: Any = None
        self.inner: list[_Call] = []

    def outputs(self) -> list[Any]:
        """All outputs that are shared."""
        return [self.output] if self.is_shared else [o for c in self.inner for o in c.outputs()]


class _Record:
    """Notes the calls of a run until the first of a layer that varies."""

    def __init__(self, graph: tf.Graph, varying: Collection[int]) -> None:
        self.root = _Call()
        self._graph, self._varying, self._open = graph, varying, [self.root]
        self._first, self._end = len(graph.get_operations()), sys.maxsize

    def listening(self, layer: keras.layers.Layer, own: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if id(layer) in self._varying:
                self._end = min(self._end, len(self._graph.get_operations()))
            if self._has_ended():
                return own(*args, **kwargs)
            mine = _Call()
            self._open[-1].inner.append(mine)
            self._open.append(mine)
            output = own(*args, **kwargs)
            self._open.pop()
            if not self._has_ended():
                mine.is_shared, mine.output, mine.inner = True, output, []
            return output

        return call

    def changes(self) -> bool:
        """Whether anything before that layer has noise, or changes what is not of the graph."""
        ops = self._graph.get_operations()[self._first : self._end]
        return not all(map(_repeats, kinds(ops)))

    def depends_on(self, own: Iterable[tf.Tensor]) -> bool:
        """Whether an output that is shared has been computed of one of these."""
        outputs = tf.nest.flatten(self.root.outputs(), expand_composites=True)
        shared = behind(filter(self._is_here, outputs))
        return not shared.isdisjoint(tensor.op for tensor in filter(self._is_here, own))

    def _has_ended(self) -> bool:
        return self._end < sys.maxsize

    def _is_here(self, tensor: Any) -> bool:
        return getattr(tensor, "graph", None) is self._graph


class _Replay:
    """Answers the same calls by what they have given."""

    def __init__(self, root: _Call) -> None:
        self._open = [iter(root.inner)]

    def listening(self, layer: keras.layers.Layer, own: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            noted = next(self._open[-1], None)
            if noted is not None and noted.is_shared:
                return noted.output
            self._open.append(iter(() if noted is None else noted.inner))
            try:
                return own(*args, **kwargs)
            finally:
                self._open.pop()

        return call


def _graph_of(x: Any) -> tf.Graph | None:
    """The graph that all inputs are of; None in eager calls."""
    if tf.executing_eagerly():
        return None
    graphs = {id(g): g for g in (getattr(leaf, "graph", None) for leaf in keras.tree.flatten(x))}
    return next(iter(graphs.values())) if len(graphs) == 1 else None


def _repeats(kind: str) -> bool:
    """Whether an operation of this kind gives the same each time."""
    if kind.startswith((*_READS, *_TABLES)) or kind.removeprefix("Stateful") in _CALLS:
        return True
    return "Random" not in kind and not is_stateful(kind)
