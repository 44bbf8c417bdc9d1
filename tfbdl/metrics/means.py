"""Metrics that are a mean over examples."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfbdl.arguments import boolean
from tfbdl.metrics import array_checks, tensor_checks
from tfbdl.metrics.tensor_positions import as_examples


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
        super().update_state(values, tensor_checks.weights_of(sample_weight, values))


class ClassMean(ExampleMean):
    """The mean of `values`, of labels and class probabilities, over all examples since a reset.

    `sample_weight` is taken, as Keras' own metrics do: the mean is then weighted.

    Args:
        from_logits: whether the outputs are logits; probabilities by default, as of a network
            that ends in softmax. One output, of shape (B,) or (B, 1), speaks of class 1 of two.
        name: the name in logs.
        dtype: the type of the sums; float64 by default, so that they are exact over many batches.
    """

    def __init__(
        self, from_logits: bool = False, name: str | None = None, dtype: str = "float64"
    ) -> None:
        super().__init__(name, dtype)
        self.from_logits = boolean("from_logits", from_logits)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Adds a batch.

        Args:
            y_true: the targets.
            y_pred: the model's outputs, shape (B, C), or (B, ..., C) of positions, each of which is
                an example.
            sample_weight: a weight an example, or a position, or None.
        """
        super().update_state(*as_examples(y_true, y_pred, sample_weight))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "from_logits": self.from_logits}
