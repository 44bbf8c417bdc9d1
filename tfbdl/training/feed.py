"""The sources of an epoch's batches: arrays on the device, or data sets read as they go."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from tfbdl import likelihoods
from tfbdl.examples import structure_of_arrays
from tfbdl.model_arguments import output_on
from tfbdl.random import word
from tfbdl.sources import num_examples
from tfbdl.training import checks, workers

DataOfEpoch: TypeAlias = Callable[[int, tf.distribute.InputContext], tf.data.Dataset]
Step: TypeAlias = Callable[..., Any]


class Arrays:
    """Examples that stay on the device, where each replica gathers its part of a batch.

    They are shuffled anew each epoch by `seed` and the epoch's number.

    Args:
        strategy: over whose replicas the batches are shared out.
        data: (x,) or (x, y), of N examples each; x an array or a structure of arrays.
        batch_size: examples a step, over all replicas.
        seed: the seed of the order.

    Attributes:
        num_data: N.
        first: a batch of one example.
        on_device: True, since steps need nothing from outside of the device.

    Raises:
        ValueError: if another worker has other arrays.
    """

    on_device = True

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        data: tuple[Any, ...],
        *,
        batch_size: int,
        seed: int,
    ) -> None:
        if workers.are_several(strategy):
            workers.check_alike(strategy, {"the checksum of x and y": _checksum(data)})
        self.strategy = strategy
        self.data = keras.tree.map_structure(_on_device, data)
        self.num_data = num_examples(data)
        self.batch_size = batch_size
        self.seed = seed
        self.first = _rows(self.data, slice(1))

    def epoch(self, number: int) -> tf.Tensor:
        """The order of the examples, shape (N,)."""
        order = tf.range(self.num_data)
        seed = tf.constant([word(self.seed), number], tf.int64)
        return tf.random.experimental.stateless_shuffle(order, seed)

    def on_replicas(self, function: Step, epoch: tf.Tensor, step: tf.Tensor) -> Any:
        """The results of `function` for its part of a batch, on each replica."""
        batch = tf.slice(epoch, [step * self.batch_size], [self.batch_size])
        replicas = self.strategy.num_replicas_in_sync
        if replicas == 1:
            return function(*self._gathered(batch))
        share = self.batch_size // replicas

        def of_share() -> Any:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            mine = tf.slice(batch, [replica * share], [share])
            return function(*self._gathered(mine))

        return self.strategy.run(of_share)

    def _gathered(self, rows: tf.Tensor) -> tuple[Any, ...]:
        return keras.tree.map_structure(lambda array: tf.gather(array, rows), self.data)


class Stream:
    """Examples that are read as they are needed, from a data set for each epoch and worker.

    Args:
        strategy: over whose replicas the batches are shared out.
        data: gives the examples, x or (x, y), that this worker has in an epoch.
        num_data: N, of all workers.
        batch_size: examples a step, over all replicas.

    Attributes:
        first: the first batch of a replica here.
        on_device: False, since data are read between the steps.

    Raises:
        ValueError: if `data` gives something else, no whole batch, or all workers the same.
    """

    on_device = False

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        data: DataOfEpoch,
        *,
        num_data: int,
        batch_size: int,
    ) -> None:
        self.strategy = strategy
        self.data = data
        self.num_data = num_data
        self.batch_size = batch_size
        try:
            batch = next(self.epoch(1))
        except (StopIteration, tf.errors.OutOfRangeError):
            raise ValueError(
                f"x gives fewer examples than its part of batch_size={batch_size}; let it give "
                "single examples, not batches"
            ) from None
        self.first = keras.tree.map_structure(
            lambda part: strategy.experimental_local_results(part)[0], batch
        )
        if workers.are_several(strategy):
            self._check_shared_out()

    def epoch(self, number: int) -> Any:
        """An iterator over the batches of the replicas on this worker."""
        return iter(self.strategy.distribute_datasets_from_function(partial(self._batches, number)))

    def on_replicas(self, function: Step, epoch: Any, step: tf.Tensor) -> Any:
        """The results of `function` for its part of a batch, on each replica."""
        return self.strategy.run(function, next(epoch))

    def _batches(self, number: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
        try:
            examples = self.data(number, context)
        except (StopIteration, tf.errors.OutOfRangeError) as error:  # of a data set: its end
            raise RuntimeError(
                f"x raised {type(error).__name__} for epoch {number}: {error}"
            ) from error
        if not isinstance(examples, tf.data.Dataset):
            raise ValueError(f"x gives a {type(examples).__name__}; let it make a tf.data.Dataset")
        spec = examples.element_spec
        if not isinstance(spec, tuple):
            examples, spec = examples.map(lambda x: (x,)), (spec,)
        leaves = tf.nest.flatten(spec)
        if len(spec) > 2 or not all(isinstance(leaf, tf.TensorSpec) for leaf in leaves):
            raise ValueError("x gives examples that are neither x nor (x, y), of tensors")
        size = context.get_per_replica_batch_size(self.batch_size)
        return examples.batch(size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

    def _check_shared_out(self) -> None:
        checksum = np.array([_checksum(self.first)])
        if len(np.unique(workers.of_all(self.strategy, checksum))) == 1:
            raise ValueError(
                "x gives all workers the same examples; let each have its own, as by "
                "data.shard(context.num_input_pipelines, context.input_pipeline_id)"
            )


Feed: TypeAlias = Arrays | Stream


def feed_of(
    model: keras.Model, x: Any, y: Any, *, num_data: int | None, batch_size: int, seed: int
) -> Feed:
    """The examples of a run, checked.

    Raises:
        ValueError: unless x is an array, a structure of arrays or a function, and the model can be
            trained on it.
    """
    strategy = model.distribute_strategy
    if callable(x):
        num_data = checks.check_function(y, num_data)
        batch_size = checks.check_batch_size(strategy, batch_size, num_data)
        feed: Feed = Stream(strategy, x, num_data=num_data, batch_size=batch_size)
        data = keras.tree.map_structure(lambda part: part.numpy(), feed.first)
        checks.check_examples(model, *data)
    else:
        checks.check_no_data_set(x, num_data)
        if x is None:
            raise ValueError("x=None: give examples")
        x = structure_of_arrays("x", x)
        data = (x,) if y is None else (x, structure_of_arrays("y", y, text=False))
        checks.check_examples(model, *data)
        batch_size = checks.check_batch_size(strategy, batch_size, num_examples(data))
        feed = Arrays(strategy, data, batch_size=batch_size, seed=seed)
    checks.check_has_targets(model, data)
    output = output_on(model, _rows(feed.first[0], slice(1)))
    for targets in data[1:]:
        likelihoods.check_targets(model, targets, output)
    return feed


def _rows(data: Any, rows: slice) -> Any:
    return keras.tree.map_structure(lambda array: array[rows], data)


def _checksum(data: Any) -> int:
    parts = keras.tree.flatten(data)
    return zlib.crc32(b"".join(map(_bytes, parts)))


def _bytes(part: Any) -> bytes:
    array = np.asarray(part)
    return repr(array.tolist()).encode() if array.dtype == object else array.tobytes()


def _on_device(array: np.ndarray) -> tf.Tensor:
    dtype = keras.config.floatx() if array.dtype.kind == "f" else array.dtype
    return tf.constant(array, dtype)
