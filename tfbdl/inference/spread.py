"""Chains spread over the replicas of a `tf.distribute` strategy, each replica with its share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfbdl.training import workers


class Spread:
    """Puts chains on the replicas, and collects what they give back.

    Args:
        strategy: of one process, such as `tf.distribute.MirroredStrategy`; None for one device.
        jit_compile: whether XLA compiles what runs on a replica.

    Raises:
        ValueError: if the strategy spans several processes.
    """

    def __init__(self, strategy: tf.distribute.Strategy | None, jit_compile: bool) -> None:
        if strategy is not None and workers.are_several(strategy):
            raise ValueError(
                "strategy spans several processes; chains need none of the others: run MCMC in "
                "each, with a seed and savedir of its own"
            )
        self.strategy = strategy
        self.num_replicas = 1 if strategy is None else strategy.num_replicas_in_sync
        self.jit_compile = jit_compile

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` of what `scatter` gives, and of plain tensors, to what `gather` takes."""
        compiled = tf.function(function, autograph=False, jit_compile=self.jit_compile)
        if self.strategy is not None:
            run, of_replica = self.strategy.run, compiled
            compiled = tf.function(lambda *args: run(of_replica, args), autograph=False)
        return lambda *args: compiled.get_concrete_function(*args)(*args)

    def scatter(self, chains: Any) -> Any:
        """A structure of arrays whose first axis, of chains or replicas, is shared out."""
        chains = tf.nest.map_structure(tf.convert_to_tensor, chains)
        if self.strategy is None:
            return chains

        def part(context: tf.distribute.distribution_strategy_context.ValueContext) -> Any:
            r = context.replica_id_in_sync_group
            return tf.nest.map_structure(lambda a: tf.split(a, self.num_replicas)[r], chains)

        return self.strategy.experimental_distribute_values_from_function(part)

    def gather(self, spread: Any, axis: int = 0) -> Any:
        """The structure of whole arrays of NumPy, put together along that axis."""
        if self.strategy is None:
            return tf.nest.map_structure(lambda a: a.numpy(), spread)
        parts = self.strategy.experimental_local_results(spread)
        return tf.nest.map_structure(lambda *a: tf.concat(a, axis).numpy(), *parts)
