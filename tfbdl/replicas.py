"""Chains and draws spread over the replicas of a `tf.distribute` strategy, each with its share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

from tfbdl.graphs import Compiled


def summed(value: tf.Tensor) -> tf.Tensor:
    """The sum of what each replica has, in a step that replicas do together; else `value`."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return value
    return context.all_reduce(tf.distribute.ReduceOp.SUM, value)


class Replicas:
    """Puts work on the replicas of this process, and collects what they give back.

    Replicas tell one another nothing, so that each process of a strategy may call it alone.

    Args:
        strategy: such as `tf.distribute.MirroredStrategy`; None for one device.
        jit_compile: whether XLA compiles what runs on a replica, as in `Compiled`.
    """

    def __init__(
        self, strategy: tf.distribute.Strategy | None, jit_compile: bool | None = None
    ) -> None:
        self.strategy: tf.distribute.Strategy | None = None
        self.num_replicas, self.jit_compile = 1, jit_compile
        self._as_graph = partial(Compiled, jit_compile=jit_compile)
        if strategy is not None and strategy.num_replicas_in_sync > 1:
            self.strategy = strategy
            self.num_replicas = len(strategy.extended.worker_devices)

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, from the values of `scatter` and plain tensors to the values for `gather`."""
        strategy = self.strategy
        if strategy is None:
            return self._as_graph(function)

        def of_replica(*own: Any) -> Any:
            """Traced for each: XLA takes no variable of another device."""
            return self._as_graph(function)(*own)

        return Compiled(lambda *args: strategy.run(of_replica, args), jit_compile=False)

    def scatter(self, values: Any) -> Any:
        """A structure of arrays whose first axis, of chains or replicas, is shared out."""
        values = tf.nest.map_structure(tf.convert_to_tensor, values)
        if self.strategy is None:
            return values

        def part(context: tf.distribute.distribution_strategy_context.ValueContext) -> Any:
            r = context.replica_id_in_sync_group % self.num_replicas
            return tf.nest.map_structure(lambda a: tf.split(a, self.num_replicas)[r], values)

        return self.strategy.experimental_distribute_values_from_function(part)

    def gather(self, on_replicas: Any, axis: int = 0) -> Any:
        """The structure of whole arrays of NumPy, put together along that axis."""
        if self.strategy is None:
            return tf.nest.map_structure(lambda a: a.numpy(), on_replicas)
        parts = self.strategy.experimental_local_results(on_replicas)
        return tf.nest.map_structure(lambda *a: tf.concat(a, axis).numpy(), *parts)
