"""Private names of Keras that read data: its adapters for what Python code makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from keras.src.trainers.data_adapters.generator_data_adapter import GeneratorDataAdapter
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

__all__ = ["batches_of", "data_set_of"]


def batches_of(data: keras.utils.PyDataset) -> Iterator[Any]:
    """The batches of an epoch in their order, made by the workers that it asks for."""
    adapter = PyDatasetAdapter(data)
    adapter.on_epoch_begin()
    try:
        yield from adapter.get_numpy_iterator()
    finally:
        adapter.on_epoch_end()


def data_set_of(batches: Iterator[tuple[Any, ...]]) -> tf.data.Dataset:
    """A data set of batches that Python makes, which can be read once.

    Shapes are those of the first two batches, where they agree.
    """
    data: tf.data.Dataset = GeneratorDataAdapter(batches).get_tf_dataset()
    return data
