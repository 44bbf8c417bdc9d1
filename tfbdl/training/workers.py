"""Messages between the workers of a `tf.distribute` strategy over several processes.

All workers call each function at once; for a strategy of one process they do nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

CHUNK = 2**26
"""Bytes that the chief sends at once."""


def are_several(strategy: tf.distribute.Strategy) -> bool:
    """Whether the replicas are in more than one process."""
    replicas = strategy.num_replicas_in_sync
    return replicas > 1 and replicas > len(strategy.extended.worker_devices)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this is the process that writes."""
    return strategy.extended.should_checkpoint


def from_chief(strategy: tf.distribute.Strategy, data: bytes) -> bytes:
    """`data` of the chief."""
    if not are_several(strategy):
        return data
    size = int(of_all(strategy, np.array([len(data)]))[0, 0])
    data = data if is_chief(strategy) else bytes(size)
    parts = (data[start : start + CHUNK] for start in range(0, size, CHUNK))
    return b"".join(_chunk_of_chief(strategy, part) for part in parts)


def of_all(strategy: tf.distribute.Strategy, values: np.ndarray) -> np.ndarray:
    """The integers of all workers, shape (W, n) if each gives n, the chief's first."""
    if not are_several(strategy):
        return values[None]
    gathered = _on_replicas(
        strategy, lambda context, values: context.all_gather(values[None], axis=0), values
    )
    return gathered[:: len(strategy.extended.worker_devices)]


def check_alike(strategy: tf.distribute.Strategy, settings: Mapping[str, int]) -> None:
    """Raises ValueError, on every worker, where one has other settings than the chief."""
    values = of_all(strategy, np.array(list(settings.values())))
    for name, column in zip(settings, values.T, strict=True):
        for worker in np.flatnonzero(column != column[0]):
            raise ValueError(
                f"{name} is {column[0]} on the chief and {column[worker]} on worker {worker}; run "
                "the same script on the same data everywhere"
            )


@contextmanager
def loss_raises(strategy: tf.distribute.Strategy, error: Callable[[], Exception]) -> Iterator[None]:
    """Raises `error()` where TensorFlow finds that another worker is gone."""
    try:
        yield
    except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError):
        if not are_several(strategy):
            raise
        raise error() from None


def _chunk_of_chief(strategy: tf.distribute.Strategy, data: bytes) -> bytes:
    words = np.frombuffer(data.ljust(-(-len(data) // 8) * 8, b"\0"), np.int64)

    def of_first(context: tf.distribute.ReplicaContext, words: tf.Tensor) -> tf.Tensor:
        mine = tf.where(context.replica_id_in_sync_group == 0, words, tf.zeros_like(words))
        return context.all_reduce(tf.distribute.ReduceOp.SUM, mine)

    return _on_replicas(strategy, of_first, words).tobytes()[: len(data)]


def _on_replicas(
    strategy: tf.distribute.Strategy, function: Callable[..., tf.Tensor], values: np.ndarray
) -> np.ndarray:
    """`function` of the replica's context and of int64 `values`, on the first replica here."""

    @tf.function
    def of_all_replicas(values: tf.Tensor) -> Any:
        return strategy.run(
            lambda values: function(tf.distribute.get_replica_context(), values), (values,)
        )

    results = of_all_replicas(tf.constant(values, tf.int64))
    return strategy.experimental_local_results(results)[0].numpy()
