"""The part of a network that all members of an ensemble share, computed once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from tfbdl.keras_private import own_variables, walk
from tfbdl.recording import each_call


class SharedPart:
    """All calls of layers that end before the first layer begins whose weights are a member's own.

    What has been computed before cannot depend on them. It is computed where the inputs are: of a
    loop over members, in the graph around it.

    Args:
        network: the network.
        own: the variables of which each member has its own value.
    """

    def __init__(self, network: keras.Model, own: Collection[keras.Variable]) -> None:
        places = set(map(id, own))
        self._layers = list(walk(network))
        self._varying = {
            id(layer)
            for layer in self._layers
            if any(id(v) in places for v in own_variables(layer))
        }
        self._is_empty = id(network) in self._varying

    @contextmanager
    def known(
        self, x: Any, run: Callable[[], Any], own: Callable[[], Sequence[tf.Tensor]]
    ) -> Iterator[None]:
        """A context in which the network, called for x, does not compute this part again.

        Args:
            x: the inputs; of eager ones nothing is shared.
            run: calls the network for x, at the values that `own` has given last.
            own: gives values of the variables of a member.
        """
        graph = _graph_of(x)
        if graph is None or self._is_empty:
            yield
            return
        replay = _Replay(self._recorded(graph, x, run, own))
        with each_call(self._layers[1:], replay.listening):
            yield

    def _recorded(
        self,
        graph: tf.Graph,
        x: Any,
        run: Callable[[], Any],
        own: Callable[[], Sequence[tf.Tensor]],
    ) -> _Call:
        leaves = keras.tree.flatten(x)
        kept = graph.get_collection_ref(self)  # those named by strings are written into exports
        for inputs, root in kept:
            if all(a is b for a, b in zip(inputs, leaves, strict=True)):
                return root
        record = _Record(self._varying)
        with graph.as_default(), each_call(self._layers[1:], record.listening):
            values = own()
            run()
        outputs = [leaf for out in record.root.outputs() for leaf in keras.tree.flatten(out)]
        root = _Call() if _depend(outputs, values) else record.root
        kept.append((leaves, root))
        return root


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

    def __init__(self, varying: Collection[int]) -> None:
        self.root = _Call()
        self._varying, self._open, self._ended = varying, [self.root], False

    def listening(self, layer: keras.layers.Layer, own: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._ended = self._ended or id(layer) in self._varying
            if self._ended:
                return own(*args, **kwargs)
            mine = _Call()
            self._open[-1].inner.append(mine)
            self._open.append(mine)
            output = own(*args, **kwargs)
            self._open.pop()
            if not self._ended:
                mine.is_shared, mine.output, mine.inner = True, output, []
            return output

        return call


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


def _depend(outputs: Sequence[tf.Tensor], values: Sequence[tf.Tensor]) -> bool:
    """Whether one of the outputs has been computed of one of the values."""
    wanted = {id(value.op) for value in values}
    todo, seen = [output.op for output in outputs], set[int]()
    while todo:
        operation = todo.pop()
        if id(operation) in wanted:
            return True
        if id(operation) not in seen:
            seen.add(id(operation))
            todo += [tensor.op for tensor in operation.inputs]
    return False
