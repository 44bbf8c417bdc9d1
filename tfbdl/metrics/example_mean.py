"""Metrics that are a mean over examples."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl.metrics import array_checks, tensor_checks


class ExampleMean(keras.metrics.Mean):
    """The mean of `values` over all examples since the last reset.

    `sample_weight` is taken, as Keras' own metrics do: the mean is then weighted.

    Args:
        name: the name in logs.
        dtype: the type of the sums; float64 by default, so that they are exact over many batches.
    """

    def __init__(self, name: str | None = None, dtype: str = "float64") -> None:
        super().__init__(**array_checks.of_keras(name, dtype))

    def values(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        """The values to be averaged, shape (B,) or (B, D)."""
        raise NotImplementedError

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds a batch.

        Args:
            y_true: the targets.
            y_pred: the model's outputs.
            sample_weight: a weight an example, or None.
        """
        values = self.values(y_true, y_pred)
        if sample_weight is not None:
            sample_weight = tensor_checks.weights_of(sample_weight, values)
        super().update_state(values, sample_weight)
