"""The sources of an epoch's batches: arrays on the device, or batches read as they go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from tfbdl import likelihoods
from tfbdl.arguments import optional
from tfbdl.example_weights import ClassWeights, sample_weights, weights_like
from tfbdl.examples import structure_of_arrays
from tfbdl.lookups import check_lookups
from tfbdl.model_arguments import output_on
from tfbdl.random import word
from tfbdl.sources import Source, kind_of, num_examples
from tfbdl.training import checks, workers
from tfbdl.training.checksum import checksum
from tfbdl.training.streams import BatchStream, Step, Stream, on_device

BATCH_SIZE = 100


def order_of_epoch(num_data: int, seed: int, number: int) -> tf.Tensor:
    """The order of arrays of N examples in an epoch, from 1 on, shape (N,)."""
    key = tf.constant([word(seed), number], tf.int64)
    return tf.random.experimental.stateless_shuffle(tf.range(num_data), key)


class Arrays:
    """Examples that stay on the device, where each replica gathers its part of a batch.

    They are shuffled anew each epoch by `seed` and the epoch's number.

    Args:
        strategy: over whose replicas the batches are shared out.
        data: (x,), (x, y) or (x, y, weights), of N examples each; arrays or structures of arrays.
        batch_size: examples a step, over all replicas.
        seed: the seed of the order.

    Attributes:
        first: a batch of one example.
        on_device: True, since steps need nothing from outside of the device.
        number: the number of batches in an epoch.
        settings: what a run is taken up by.

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
            workers.check_alike(strategy, {"the checksum of x and y": checksum(data)})
        self.strategy = strategy
        self.data = keras.tree.map_structure(on_device, data)
        self.num_data = num_examples(data)
        self.batch_size = batch_size
        self.number = self.num_data // batch_size
        self.settings = {"num_data": self.num_data, "batch_size": batch_size}
        self.seed = seed
        self.first = _rows(self.data, slice(1))

    def epoch(self, number: int) -> tf.Tensor:
        """The order of the examples, shape (N,)."""
        return order_of_epoch(self.num_data, self.seed, number)

    @property
    def like(self) -> tf.Tensor:
        """What `epoch` gives, for graphs to be made for."""
        return self.epoch(1)

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


Feed: TypeAlias = Arrays | Stream | BatchStream


class Examples(NamedTuple):
    """What a run is to train on, as `tfbdl.train` is given it."""

    x: Any
    y: Any
    sample_weight: Any
    class_weight: Mapping[int, float] | None
    num_data: int | None
    batch_size: int | None
    steps_per_epoch: int | None


def feed_of(model: keras.Model, data: Examples, *, epochs: int, seed: int) -> Feed:
    """The examples of a run, checked: all of arrays, and of others the first batch.

    Raises:
        ValueError: unless the model can be trained on them.
    """
    checks.check_data(data.x, data.num_data)
    if data.steps_per_epoch is not None and kind_of(data.x) is None:
        raise ValueError(
            f"steps_per_epoch={data.steps_per_epoch} is for data sets and generators; leave it out"
        )
    strategy = model.distribute_strategy
    class_weight = optional(lambda _, value: ClassWeights(value), "class_weight", data.class_weight)
    if callable(data.x):
        num_data = checks.check_function(data.y, data.sample_weight, data.num_data)
        batch_size = _batch_size(strategy, data.batch_size, num_data)
        stream = Stream(
            strategy, data.x, num_data=num_data, batch_size=batch_size, class_weight=class_weight
        )
        return _checked(model, stream)
    if kind_of(data.x) is not None:
        checks.check_batches(data.x, data.batch_size, data.steps_per_epoch)
        weights = {"sample_weight": data.sample_weight, "class_weight": data.class_weight}
        source = Source(
            data.x, data.y, **weights, steps=data.steps_per_epoch, model=model, trains=True
        )
        return _checked(model, BatchStream(strategy, source, epochs=epochs, seed=seed))
    arrays = _arrays_of(model, data, class_weight)
    batch_size = _batch_size(strategy, data.batch_size, num_examples(arrays))
    feed = Arrays(strategy, arrays, batch_size=batch_size, seed=seed)
    return _fitting(model, feed, arrays)


def _arrays_of(
    model: keras.Model, data: Examples, class_weight: ClassWeights | None
) -> tuple[Any, ...]:
    """(x,), (x, y) or (x, y, weights), checked; the weights in the structure of y, as Keras'."""
    x, y = structure_of_arrays("x", Source(data.x, model=model).x), data.y
    if y is None:
        if data.sample_weight is not None:
            checks.check_weighs_inputs(model)
            num = num_examples((x,))  # targets there have to be for Keras to see weights
            return x, np.zeros(num), sample_weights(data.sample_weight, num)
        if class_weight is not None:
            raise ValueError("class_weight is given without y, which has the classes; give y")
        checks.check_examples(model, x)
        return (x,)
    y = structure_of_arrays("y", y, text=False)
    checks.check_examples(model, x, y)
    if class_weight is not None:
        if data.sample_weight is not None:
            raise ValueError("class_weight and sample_weight are both given; leave one out")
        return x, y, class_weight(y).numpy()
    if data.sample_weight is None:
        return x, y
    return x, y, weights_like(y, data.sample_weight, num_examples((x,)))


def _checked(model: keras.Model, feed: Stream | BatchStream) -> Feed:
    """The feed, if its first batch is such as the model takes."""
    first = keras.tree.map_structure(lambda part: part.numpy(), feed.first)
    checks.check_examples(model, *first[:2])
    for weights in first[2:]:
        weights_like(first[1], weights, num_examples(first), " of batch 0")
    return _fitting(model, feed, first)


def _fitting(model: keras.Model, feed: Feed, data: tuple[Any, ...]) -> Feed:
    """The feed, if the model has outputs for its inputs, and a loss for its targets and weights."""
    checks.check_has_targets(model, data)
    output = output_on(model, _rows(feed.first[0], slice(1)))
    check_lookups(model, data[0])
    for targets in data[1:2]:
        likelihoods.check_targets(model, targets, output)
    return feed


def _batch_size(strategy: tf.distribute.Strategy, batch_size: int | None, num_data: int) -> int:
    batch_size = BATCH_SIZE if batch_size is None else batch_size
    return checks.check_batch_size(strategy, batch_size, num_data)


def _rows(data: Any, rows: slice) -> Any:
    return keras.tree.map_structure(lambda array: array[rows], data)
