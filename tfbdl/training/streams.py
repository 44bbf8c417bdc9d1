"""Batches read as they are needed: of a function of the epoch, or as a data set has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from tfbdl.example_weights import ClassWeights
from tfbdl.keras_private_data import batches_of, data_set_of
from tfbdl.random import word
from tfbdl.sources import GENERATOR, PY_DATASET, Source, unpacked
from tfbdl.training import workers
from tfbdl.training.checksum import checksum

DataOfEpoch: TypeAlias = Callable[[int, tf.distribute.InputContext], tf.data.Dataset]
Step: TypeAlias = Callable[..., Any]


class Stream:
    """Examples that are read as they are needed, from a data set for each epoch and worker.

    Args:
        strategy: over whose replicas the batches are shared out.
        data: gives the examples, x, (x, y) or (x, y, weight), that this worker has in an epoch.
        num_data: N, of all workers.
        batch_size: examples a step, over all replicas.
        class_weight: weights by class, or None.

    Attributes:
        first: the first batch of a replica here.
        on_device: False, since data are read between the steps.
        number: the number of batches in an epoch.
        settings: what a run is taken up by.

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
        class_weight: ClassWeights | None,
    ) -> None:
        self.strategy = strategy
        self.data = data
        self.batch_size = batch_size
        self.number = num_data // batch_size
        self.settings = {"num_data": num_data, "batch_size": batch_size}
        self._class_weight = class_weight
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

    @property
    def like(self) -> Any:
        """What `epoch` gives, for graphs to be made for."""
        return self.epoch(1)

    def on_replicas(self, function: Step, epoch: Any, step: tf.Tensor) -> Any:
        """The results of `function` for its part of a batch, on each replica."""
        return self.strategy.run(function, next(epoch))

    def _batches(self, number: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
        try:
            examples = self.data(number, context)
        except (StopIteration, tf.errors.OutOfRangeError) as error:  # the end of a data set
            raise RuntimeError(
                f"x raised {type(error).__name__} for epoch {number}: {error}"
            ) from error
        if not isinstance(examples, tf.data.Dataset):
            raise ValueError(f"x gives a {type(examples).__name__}; let it make a tf.data.Dataset")
        examples = in_tuples(examples)
        spec = examples.element_spec
        leaves = tf.nest.flatten(spec)
        if len(spec) > 3 or not all(isinstance(leaf, tf.TensorSpec) for leaf in leaves):
            raise ValueError(
                "x gives examples that are neither x nor (x, y) nor (x, y, weight), of tensors"
            )
        size = context.get_per_replica_batch_size(self.batch_size)
        batches = examples.batch(size, drop_remainder=True)
        return weighted(batches, self._class_weight).prefetch(tf.data.AUTOTUNE)

    def _check_shared_out(self) -> None:
        own = np.array([checksum(self.first)])
        if len(np.unique(workers.of_all(self.strategy, own))) == 1:
            raise ValueError(
                "x gives all workers the same examples; let each have its own, as by "
                "data.shard(context.num_input_pipelines, context.input_pipeline_id)"
            )


class BatchStream:
    """The batches of a data set as it has them, one after the other, epoch after epoch.

    An epoch is one pass, or `steps` batches, of which the next epoch takes up the thread; at the
    end of the data they begin anew. Batches of a `PyDataset` come in an order that depends on
    `seed` and the number of the pass alone. A run that goes on after epoch k reads over the batches
    of the first k, so that it has those that it would have had.

    Args:
        strategy: over whose replicas each batch is shared out; of one worker.
        source: a `tf.data.Dataset`, a `keras.utils.PyDataset` or a generator, and the steps.
        epochs: the number of the last epoch.
        seed: the seed of the order of a `PyDataset`.

    Attributes:
        first: the first batch.
        on_device: False, since data are read between the steps.
        like: what `epoch` gives, for graphs to be made for.
        number: the number of batches in an epoch.
        settings: what a run is taken up by.

    Raises:
        ValueError: if the number of batches is not known, there are several workers, or no batch.
    """

    on_device = False

    def __init__(
        self, strategy: tf.distribute.Strategy, source: Source, *, epochs: int, seed: int
    ) -> None:
        if workers.are_several(strategy):
            raise ValueError(
                f"x is {source.kind}, which several workers cannot share; give a function of the "
                "epoch and a tf.distribute.InputContext that makes a tf.data.Dataset"
            )
        if source.number is None:
            raise ValueError(
                f"x is {source.kind} that does not say how many batches it has; give "
                "steps_per_epoch"
            )
        self.strategy = strategy
        self.source = source
        self.number = source.number
        self.settings = {"steps_per_epoch": source.number}
        first = source.first(tf.as_dtype(keras.config.floatx()))
        self.first = tuple(
            keras.tree.map_structure(on_device, part) for part in first if part is not None
        )
        self._stop = epochs * source.number
        self._seed = seed
        self._at = 0
        self.like = self._from(0)

    def epoch(self, number: int) -> Any:
        """An iterator over the batches, of which an epoch takes the next.

        Raises:
            ValueError: if there are fewer than a stopped run has had.
        """
        start = (number - 1) * self.number
        if start > self._at and self.source.kind == PY_DATASET:
            self.like = self._from(start)
        elif start > self._at and not all(map(self._next_one, range(self._at, start))):
            raise ValueError(f"x has ended within the {start} batches of the first {number} epochs")
        self._at = start + self.number
        return self.like

    def on_replicas(self, function: Step, epoch: Any, step: tf.Tensor) -> Any:
        """The results of `function` for its part of a batch, on each replica."""
        return self.strategy.run(function, next(epoch))

    def _next_one(self, number: int) -> bool:
        """Reads over a batch; says whether there was one."""
        return next(self.like, None) is not None

    def _from(self, start: int) -> Any:
        """An iterator over all batches; those of a `PyDataset` from number `start` on."""
        if self.source.kind == PY_DATASET:
            passes = _passes(self.source.x, self._seed, start, self._stop)
            data = data_set_of(map(as_tuple, passes))
        elif self.source.kind == GENERATOR:
            data = data_set_of(map(as_tuple, self.source.batches()))
        else:
            data = in_tuples(self.source.x).repeat()
        data = weighted(data, self.source.class_weight)
        return iter(self.strategy.experimental_distribute_dataset(data))


class _Reordered(keras.utils.PyDataset):
    """A `PyDataset` from one of its batches on, or in another order.

    Args:
        data: the data set.
        order: the numbers of the batches; a number from which on it has no end.
    """

    def __init__(self, data: keras.utils.PyDataset, order: np.ndarray | int) -> None:
        super().__init__(data.workers, data.use_multiprocessing, data.max_queue_size)
        self._data, self._order = data, order

    @property
    def num_batches(self) -> int | None:
        return None if isinstance(self._order, int) else len(self._order)

    def __getitem__(self, index: int) -> Any:
        order = self._order
        return self._data[index + order if isinstance(order, int) else int(order[index])]

    def on_epoch_begin(self) -> None:
        self._data.on_epoch_begin()

    def on_epoch_end(self) -> None:
        self._data.on_epoch_end()


def _passes(data: keras.utils.PyDataset, seed: int, start: int, stop: int) -> Iterator[Any]:
    """The batches number `start` to `stop` of pass after pass, each in an order of its own."""
    length = data.num_batches
    if length is None:
        yield from batches_of(_Reordered(data, start))
    else:
        for number in range(start // length, -(-stop // length)):
            order = np.random.default_rng([word(seed) % 2**64, number]).permutation(length)
            part = slice(max(start - number * length, 0), stop - number * length)
            yield from batches_of(_Reordered(data, order[part]))


def as_tuple(batch: Any) -> tuple[Any, ...]:
    """(x,), (x, y) or (x, y, weights) of a batch.

    Raises:
        ValueError: if it is none, or has weights without targets.
    """
    x, y, weights = unpacked(batch)
    if y is None and weights is not None:
        raise ValueError("x gives weights without targets; leave them out")
    return tuple(part for part in (x, y, weights) if part is not None)


def in_tuples(data: tf.data.Dataset) -> tf.data.Dataset:
    """The data set with tuples for elements."""
    is_tuple = isinstance(data.element_spec, tuple)
    return data if is_tuple else data.map(lambda x: (x,))


def weighted(data: tf.data.Dataset, class_weight: ClassWeights | None) -> tf.data.Dataset:
    """The data set of batches with weights by class, if there are some."""
    if class_weight is None:
        return data
    floatx = keras.config.floatx()
    return data.map(lambda x, y: (x, y, tf.cast(class_weight(y), floatx)))


def on_device(array: Any) -> tf.Tensor:
    """An array as a tensor, in Keras' precision if it is of floating numbers."""
    if not isinstance(array, np.ndarray):
        return array
    return tf.constant(array, keras.config.floatx() if array.dtype.kind == "f" else array.dtype)
