"""Metrics of what a model gives, whatever the targets."""

from typing import Any

import keras
import tensorflow as tf


class Moments(keras.metrics.Metric):
    """Mean over all outputs of a batch, or of their squares, whatever replica they come from."""

    def __init__(self, power: Any, name: str) -> None:
        super().__init__(name=name)
        self.power = power
        self.total = self.add_weight(name="total", initializer="zeros")
        self.count = self.add_weight(name="count", initializer="zeros")

    def update_state(self, y: Any, output: Any, sample_weight: Any = None) -> None:
        self.total.assign_add(tf.reduce_sum(output**self.power))
        self.count.assign_add(tf.cast(tf.size(output), tf.float32))

    def result(self) -> Any:
        return self.total / self.count
