"""The strategy whose replicas share the chains."""

from __future__ import annotations

import tensorflow as tf

from tfbdl import arguments
from tfbdl.training import workers


def checked_strategy(
    strategy: tf.distribute.Strategy | None, num_chains: int
) -> tf.distribute.Strategy | None:
    """The strategy, if so many chains can be spread over it; None for none.

    Raises:
        ValueError: if they cannot.
    """
    if strategy is None:
        return None
    arguments.instance("strategy", strategy, tf.distribute.Strategy, "a tf.distribute.Strategy")
    if workers.are_several(strategy):
        raise ValueError(
            "strategy spans several processes; run MCMC in each, with its own seed and savedir"
        )
    if num_chains % strategy.num_replicas_in_sync:
        raise ValueError(
            f"num_chains={num_chains} must be a multiple of the strategy's "
            f"{strategy.num_replicas_in_sync} replicas"
        )
    return strategy
